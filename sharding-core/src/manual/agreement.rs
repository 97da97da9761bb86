//! Whether the members of a region agree on what they do together: a plain state machine, without threads or data.
//!
//! A member runs, waits in a group for the others of it, or has ended. A group meets when all of its members have come with
//! equal calls. Anything else that can no longer become a meeting is a [`Break`]: two calls that differ, a member that ended
//! while another needs it, or everybody waiting for somebody else. A break is final, and holds for all members: whoever
//! waits is told, and whoever comes later is too.
//!
//! Groups that share no member need not keep pace with each other, and calls are counted per member: so members of one
//! group may be at different numbers in all, but of the calls of that group each makes the same ones in the same order.

use rustc_hash::FxHashMap;
use std::sync::Arc;

/// What tells groups apart: equal members give equal keys, whatever is called.
pub(crate) type GroupKey = (u64, usize);

/// How a member ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It returned its results.
    Returned,
    /// It returned an error, which says this.
    Failed(String),
    /// It panicked, with these words.
    Panicked(String),
}

/// One member, and what it called last or is waiting in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller<C> {
    /// The member.
    pub(crate) member: usize,
    /// Its calls so far, this one included.
    pub(crate) count: u64,
    /// What it called.
    pub(crate) call: Arc<C>,
}

/// Why the members can no longer agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Break<C> {
    /// Two members of a group came with different calls.
    Differ(Caller<C>, Caller<C>),
    /// One waits for another that ended.
    Gone {
        /// Who waits.
        waiting: Caller<C>,
        /// Who ended.
        member: usize,
        /// After so many calls.
        count: u64,
        /// How it ended.
        end: End,
    },
    /// A member failed or panicked; nobody need wait for it.
    Ended {
        /// The member.
        member: usize,
        /// How.
        end: End,
    },
    /// Everybody waits: the first for the second, which waits in another group.
    Stuck(Caller<C>, Caller<C>),
}

/// What becomes of an arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Others of the group are still to come.
    Wait,
    /// It was the last one: the group meets, and this member does the work for all.
    Meet,
    /// There is a break.
    Broken,
}

#[derive(Clone, Debug)]
enum State {
    Running,
    Waiting(GroupKey),
    Ended(End),
}

#[derive(Clone, Debug)]
struct Member<C> {
    state: State,
    count: u64,
    last: Option<Arc<C>>,
}

/// A group of which some have arrived.
#[derive(Clone, Debug)]
struct Open {
    members: Arc<[usize]>,
    arrived: usize,
    first: usize,
}

/// The members of a region and what they wait for.
#[derive(Clone, Debug)]
pub(crate) struct Agreement<C> {
    members: Vec<Member<C>>,
    open: FxHashMap<GroupKey, Open>,
    running: usize,
    ended: usize,
    broken: Option<Arc<Break<C>>>,
}

impl<C: PartialEq> Agreement<C> {
    /// So many members, all running.
    pub(crate) fn new(members: usize) -> Self {
        let member = |_| Member { state: State::Running, count: 0, last: None };
        Self {
            members: (0..members).map(member).collect(),
            open: FxHashMap::default(),
            running: members,
            ended: 0,
            broken: None,
        }
    }

    /// The break, if there is one.
    pub(crate) fn broken(&self) -> Option<&Arc<Break<C>>> {
        self.broken.as_ref()
    }

    /// The members that wait, to be told of a break: they run again.
    pub(crate) fn wake(&mut self) -> Vec<usize> {
        self.open.clear();
        let mut woken = Vec::new();
        for (i, member) in self.members.iter_mut().enumerate() {
            if matches!(member.state, State::Waiting(_)) {
                member.state = State::Running;
                woken.push(i);
            }
        }
        self.running += woken.len();
        woken
    }

    /// A running member comes to a group, of which it is one, with a call.
    pub(crate) fn arrive(
        &mut self,
        member: usize,
        key: GroupKey,
        group: &Arc<[usize]>,
        call: Arc<C>,
    ) -> Arrival {
        let Some(own) = self.members.get_mut(member) else { return Arrival::Broken };
        own.count += 1;
        own.last = Some(call.clone());
        if self.broken.is_some() {
            return Arrival::Broken;
        }
        let gone = || group.iter().copied().find(|other| self.end_of(*other).is_some());
        if self.ended > 0
            && let Some(gone) = gone()
        {
            return self.break_off(|all| all.gone(member, gone));
        }
        let open = self.open.entry(key).or_insert_with(|| Open {
            members: group.clone(),
            arrived: 0,
            first: member,
        });
        open.arrived += 1;
        let (first, complete) = (open.first, open.arrived == open.members.len());
        let differs = self.members.get(first).is_some_and(|other| other.last.as_deref() != Some(&*call));
        if differs {
            return self.break_off(|all| Some(Break::Differ(all.caller(first)?, all.caller(member)?)));
        }
        if complete {
            let met = self.open.remove(&key);
            for other in met.iter().flat_map(|open| open.members.iter()) {
                if let Some(other) = self.members.get_mut(*other)
                    && matches!(other.state, State::Waiting(_))
                {
                    other.state = State::Running;
                    self.running += 1;
                }
            }
            return Arrival::Meet;
        }
        if let Some(own) = self.members.get_mut(member) {
            own.state = State::Waiting(key);
        }
        self.running -= 1;
        if self.running == 0 {
            return self.break_off(|all| all.stuck(member));
        }
        Arrival::Wait
    }

    /// A running member ends.
    pub(crate) fn end(&mut self, member: usize, end: End) {
        let Some(own) = self.members.get_mut(member) else { return };
        own.state = State::Ended(end.clone());
        self.running -= 1;
        self.ended += 1;
        if self.broken.is_some() {
            return;
        }
        if end != End::Returned {
            self.broken = Some(Arc::new(Break::Ended { member, end }));
            return;
        }
        let waits = |open: &&Open| open.members.contains(&member);
        if let Some(waiting) = self.open.values().find(waits).map(|open| open.first) {
            self.break_off(|all| all.gone(waiting, member));
        } else if self.running == 0
            && let Some(waiting) = self.open.values().map(|open| open.first).min()
        {
            self.break_off(|all| all.stuck(waiting));
        }
    }

    fn break_off(&mut self, why: impl FnOnce(&Self) -> Option<Break<C>>) -> Arrival {
        self.broken = why(self).map(Arc::new);
        Arrival::Broken
    }

    fn end_of(&self, member: usize) -> Option<(u64, &End)> {
        match self.members.get(member) {
            Some(Member { state: State::Ended(end), count, .. }) => Some((*count, end)),
            _ => None,
        }
    }

    fn caller(&self, member: usize) -> Option<Caller<C>> {
        let found = self.members.get(member)?;
        Some(Caller { member, count: found.count, call: found.last.clone()? })
    }

    fn gone(&self, waiting: usize, member: usize) -> Option<Break<C>> {
        let (count, end) = self.end_of(member)?;
        Some(Break::Gone { waiting: self.caller(waiting)?, member, count, end: end.clone() })
    }

    /// `member` waits for one that waits elsewhere.
    fn stuck(&self, member: usize) -> Option<Break<C>> {
        let State::Waiting(key) = self.members.get(member)?.state else { return None };
        let elsewhere = |other: &&usize| matches!(self.members.get(**other), Some(Member { state: State::Waiting(k), .. }) if *k != key);
        let other = self.open.get(&key)?.members.iter().find(elsewhere)?;
        Some(Break::Stuck(self.caller(member)?, self.caller(*other)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// On 2x2 members: a group, by its members, and what is called.
    type Step = (&'static [usize], u8);

    /// What a member does before it ends.
    #[derive(Clone, Debug)]
    struct Script(Vec<Step>, End);

    fn key(group: &[usize]) -> GroupKey {
        (group.iter().fold(0, |mask, member| mask | 1 << member), group[0])
    }

    /// The group along one axis, the other, or both, that a member is in.
    fn group(member: usize, which: u8) -> &'static [usize] {
        match (which, member) {
            (0, 0 | 1) => &[0, 1],
            (0, _) => &[2, 3],
            (1, 0 | 2) => &[0, 2],
            (1, _) => &[1, 3],
            _ => &[0, 1, 2, 3],
        }
    }

    /// Whether the scripts come to their ends, if every meeting happens that can.
    fn agrees(scripts: &[Script]) -> bool {
        let mut at = vec![0; scripts.len()];
        let next = |at: &[usize], member: usize| scripts[member].0.get(at[member]).copied();
        loop {
            let ready = (0..scripts.len()).find(|member| {
                let step = next(&at, *member);
                step.is_some_and(|(group, _)| group.iter().all(|other| next(&at, *other) == step))
            });
            match ready.and_then(|member| next(&at, member)) {
                Some((group, _)) => group.iter().for_each(|member| at[*member] += 1),
                None => break,
            }
        }
        (0..scripts.len()).all(|member| next(&at, member).is_none() && scripts[member].1 == End::Returned)
    }

    #[derive(Clone)]
    struct World {
        agreement: Agreement<u8>,
        at: Vec<usize>,
        waits: Vec<bool>,
        ended: Vec<bool>,
    }

    /// Tries every order in which the members can go on; gives the number of orders that were told apart.
    fn explore(scripts: &[Script]) -> usize {
        let n = scripts.len();
        let start = World {
            agreement: Agreement::new(n),
            at: vec![0; n],
            waits: vec![false; n],
            ended: vec![false; n],
        };
        let (mut seen, mut todo, mut ends) = (HashSet::new(), vec![start], 0);
        while let Some(world) = todo.pop() {
            let free: Vec<usize> = (0..n).filter(|i| !world.waits[*i] && !world.ended[*i]).collect();
            let waiting = world.waits.iter().any(|waits| *waits);
            assert!(!(free.is_empty() && waiting), "a hang: {scripts:?}");
            if free.is_empty() {
                assert_eq!(
                    world.agreement.broken().is_none(),
                    agrees(scripts),
                    "{scripts:?} {:?}",
                    world.agreement
                );
                ends += 1;
            }
            for member in free {
                let mut next = world.clone();
                match scripts[member].0.get(next.at[member]) {
                    // After a break it stops at once, as `?` does.
                    Some((group, call)) => {
                        let members: Arc<[usize]> = (*group).into();
                        match next.agreement.arrive(member, key(group), &members, Arc::new(*call)) {
                            Arrival::Wait => next.waits[member] = true,
                            Arrival::Meet => {
                                for other in *group {
                                    next.at[*other] += 1;
                                    next.waits[*other] = false;
                                }
                            }
                            Arrival::Broken => next.at[member] = usize::MAX,
                        }
                    }
                    None => {
                        let failed = next.at[member] == usize::MAX;
                        next.agreement.end(
                            member,
                            if failed { End::Failed(String::new()) } else { scripts[member].1.clone() },
                        );
                        next.ended[member] = true;
                    }
                }
                if next.agreement.broken().is_some() {
                    for woken in next.agreement.wake() {
                        next.waits[woken] = false;
                        next.at[woken] = usize::MAX;
                    }
                }
                if seen.insert((next.at.clone(), next.waits.clone(), next.ended.clone())) {
                    todo.push(next);
                }
            }
        }
        ends
    }

    fn script(member: usize) -> impl Strategy<Value = Script> {
        let step = (0_u8..3, 0_u8..2).prop_map(move |(which, call)| (group(member, which), call));
        let end = prop_oneof![4 => Just(End::Returned), 1 => Just(End::Panicked(String::new())), 1 => Just(End::Failed(String::new()))];
        (proptest::collection::vec(step, 0..3), end).prop_map(|(steps, end)| Script(steps, end))
    }

    proptest! {
        #[test]
        fn nothing_hangs_and_only_agreement_is_called_so(scripts in (script(0), script(1), script(2), script(3))) {
            explore(&[scripts.0, scripts.1, scripts.2, scripts.3]);
        }

        #[test]
        fn equal_programs_agree_in_every_order(steps in proptest::collection::vec((0_u8..3, 0_u8..2), 0..5)) {
            let scripts: Vec<Script> = (0..4)
                .map(|member| Script(steps.iter().map(|(which, call)| (group(member, *which), *call)).collect(), End::Returned))
                .collect();
            prop_assert!(agrees(&scripts));
            prop_assert!(explore(&scripts) > 0);
        }
    }

    #[test]
    fn a_break_names_both() {
        let pair: Arc<[usize]> = [0, 1].into();
        let caller = |member, count, call: u8| Caller { member, count, call: Arc::new(call) };
        let check = |second: &dyn Fn(&mut Agreement<u8>), want: Break<u8>| {
            let mut agreement = Agreement::new(3);
            assert_eq!(agreement.arrive(0, key(&pair), &pair, Arc::new(7)), Arrival::Wait);
            second(&mut agreement);
            assert_eq!(agreement.broken().map(|broken| (**broken).clone()), Some(want));
            assert_eq!(agreement.wake().first(), Some(&0));
            assert_eq!(agreement.arrive(2, key(&pair), &pair, Arc::new(7)), Arrival::Broken);
        };
        let other: Arc<[usize]> = [1, 2].into();
        check(
            &|agreement| assert_eq!(agreement.arrive(1, key(&pair), &pair, Arc::new(8)), Arrival::Broken),
            Break::Differ(caller(0, 1, 7), caller(1, 1, 8)),
        );
        check(
            &|agreement| agreement.end(1, End::Returned),
            Break::Gone { waiting: caller(0, 1, 7), member: 1, count: 0, end: End::Returned },
        );
        let panic = || End::Panicked("oh".to_owned());
        check(&|agreement| agreement.end(1, panic()), Break::Ended { member: 1, end: panic() });
        check(
            &|agreement| {
                agreement.arrive(1, key(&other), &other, Arc::new(9));
                agreement.end(2, End::Returned);
            },
            Break::Gone { waiting: caller(1, 1, 9), member: 2, count: 0, end: End::Returned },
        );
        let third: Arc<[usize]> = [0, 2].into();
        check(
            &|agreement| {
                agreement.arrive(1, key(&other), &other, Arc::new(9));
                assert_eq!(agreement.arrive(2, key(&third), &third, Arc::new(9)), Arrival::Broken);
            },
            Break::Stuck(caller(2, 1, 9), caller(0, 1, 7)),
        );
    }
}
