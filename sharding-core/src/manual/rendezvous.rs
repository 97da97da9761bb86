//! Where the threads of a region meet: the [`Agreement`], and a seat for each member to wait at.
//!
//! It knows nothing of tensors: members bring a `G` and get an `R`, under calls `C` that are compared.

use super::agreement::{Agreement, Arrival, Break, End, GroupKey};
use super::sync::{Condvar, Mutex, spin_loop, whole};
use crate::dispatch::guarded;
use crate::{Error, ErrorKind, Result};
use std::sync::{Arc, TryLockError};

/// So many looks at the seat before a member sleeps: the others often come within a few microseconds.
const LOOKS: usize = if cfg!(loom) { 1 } else { 200 };

/// A break, as an error for each member.
type Say<C> = dyn Fn(&Break<C>) -> Error + Send + Sync;

enum Got<R> {
    Value(R),
    Error(Error),
    Broken,
}

struct Seat<G, R> {
    given: Mutex<Option<G>>,
    got: Mutex<Option<Got<R>>>,
    filled: Condvar,
}

pub(super) struct Rendezvous<C, G, R> {
    agreement: Mutex<Agreement<C>>,
    seats: Vec<Seat<G, R>>,
    say: Box<Say<C>>,
}

impl<C: PartialEq, G, R> Rendezvous<C, G, R> {
    pub(super) fn new(members: usize, say: impl Fn(&Break<C>) -> Error + Send + Sync + 'static) -> Self {
        Self {
            agreement: Mutex::new(Agreement::new(members)),
            seats: (0..members).map(|_| Seat::new()).collect(),
            say: Box::new(say),
        }
    }

    /// Comes with a value, waits for the others of the group, and gives what `work` made for this member. `work` runs on the
    /// thread of whoever comes last, with the values in the order of the group, and makes as many.
    ///
    /// # Errors
    /// What is said of a break if the members disagree, else what `work` says: all of them are told.
    pub(super) fn meet(
        &self,
        member: usize,
        key: GroupKey,
        group: &Arc<[usize]>,
        call: C,
        given: G,
        work: impl FnOnce(Vec<G>) -> Result<Vec<R>>,
    ) -> Result<R> {
        let seat = self.seat(member)?;
        *whole(seat.given.lock()) = Some(given);
        let mut agreement = whole(self.agreement.lock());
        match agreement.arrive(member, key, group, Arc::new(call)) {
            Arrival::Wait => {
                drop(agreement);
                match seat.wait() {
                    Got::Value(value) => Ok(value),
                    Got::Error(error) => Err(error),
                    Got::Broken => self.give_up(seat),
                }
            }
            Arrival::Broken => {
                self.tell(&mut agreement, Some(member));
                drop(agreement);
                self.give_up(seat)
            }
            Arrival::Meet => {
                drop(agreement);
                let seats = group.iter().filter_map(|member| self.seats.get(*member));
                let all: Vec<G> = seats.filter_map(|seat| whole(seat.given.lock()).take()).collect();
                let made = guarded("the collective", || {
                    let made = work(all)?;
                    if made.len() == group.len() {
                        return Ok(made);
                    }
                    Err(Error::new(ErrorKind::Internal, "a collective made too few values"))
                });
                self.hand_out(member, group, made)
            }
        }
    }

    /// Gives every member of the group its value, or all the same error; returns this member's.
    fn hand_out(&self, member: usize, group: &[usize], made: Result<Vec<R>>) -> Result<R> {
        let mut made = made.map(Vec::into_iter);
        let mut own = None;
        for other in group {
            let next = match &mut made {
                Ok(made) => match made.next() {
                    Some(value) => Ok(value),
                    None => continue,
                },
                Err(error) => Err(error.again()),
            };
            if *other == member {
                own = Some(next);
            } else if let Some(seat) = self.seats.get(*other) {
                seat.put(next.map_or_else(Got::Error, Got::Value));
            }
        }
        own.unwrap_or_else(|| Err(Error::new(ErrorKind::Internal, "a member is not in its own group")))
    }

    /// A member ends; whoever waits in vain is told.
    pub(super) fn end(&self, member: usize, end: End) {
        let mut agreement = whole(self.agreement.lock());
        agreement.end(member, end);
        self.tell(&mut agreement, None);
    }

    /// Wakes all that wait if there is a break.
    fn tell(&self, agreement: &mut Agreement<C>, but: Option<usize>) {
        if agreement.broken().is_none() {
            return;
        }
        for woken in agreement.wake() {
            if Some(woken) != but
                && let Some(seat) = self.seats.get(woken)
            {
                seat.put(Got::Broken);
            }
        }
    }

    /// The break, if there is one.
    pub(super) fn broken(&self) -> Option<Arc<Break<C>>> {
        whole(self.agreement.lock()).broken().cloned()
    }

    fn give_up(&self, seat: &Seat<G, R>) -> Result<R> {
        // What was brought is dropped here, not when the region ends.
        drop(whole(seat.given.lock()).take());
        Err(match self.broken() {
            Some(why) => (self.say)(&why),
            None => Error::new(ErrorKind::Internal, "a member was woken for nothing"),
        })
    }

    fn seat(&self, member: usize) -> Result<&Seat<G, R>> {
        let none = || Error::new(ErrorKind::Internal, format!("the region has no member {member}"));
        self.seats.get(member).ok_or_else(none)
    }
}

impl<G, R> Seat<G, R> {
    fn new() -> Self {
        Self { given: Mutex::new(None), got: Mutex::new(None), filled: Condvar::new() }
    }

    fn put(&self, got: Got<R>) {
        *whole(self.got.lock()) = Some(got);
        self.filled.notify_one();
    }

    fn wait(&self) -> Got<R> {
        for _ in 0..LOOKS {
            let look = match self.got.try_lock() {
                Ok(mut got) => got.take(),
                Err(TryLockError::Poisoned(got)) => got.into_inner().take(),
                Err(TryLockError::WouldBlock) => None,
            };
            if let Some(got) = look {
                return got;
            }
            spin_loop();
        }
        let mut got = whole(self.got.lock());
        loop {
            match got.take() {
                Some(got) => return got,
                None => got = whole(self.filled.wait(got)),
            }
        }
    }
}

/// Every order in which threads can come to a meeting (`cargo xtask test --deep`).
#[cfg(all(test, loom))]
mod models {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// What a member does: meetings in groups, each with what it calls, and how it ends.
    type Script = (&'static [(&'static [usize], u8)], End);

    /// Runs a thread per member, in every order, and checks that all meetings give the sum of what was brought, or else that
    /// every member that still had one before it is told the same break. Gives the numbers of runs that ended well and not.
    fn check(scripts: &'static [Script]) -> (usize, usize) {
        let (well, broken) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counts = (well.clone(), broken.clone());
        let mut model = loom::model::Builder::new();
        // Orders in which a thread is interrupted more often than this find nothing more, and take hours.
        model.preemption_bound = Some(3);
        model.check(move || {
            let say = |why: &Break<u8>| Error::new(ErrorKind::Manual, format!("{why:?}"));
            let shared: Arc<Rendezvous<u8, usize, usize>> = Arc::new(Rendezvous::new(scripts.len(), say));
            let run = |member: usize, shared: &Rendezvous<u8, usize, usize>| -> Option<String> {
                let (meetings, end) = &scripts[member];
                for (group, call) in *meetings {
                    let key = (group.iter().fold(0, |mask, member| mask | 1 << member), group[0]);
                    let n = group.len();
                    let met = shared.meet(member, key, &Arc::from(*group), *call, member + 1, |all| {
                        Ok(vec![all.iter().sum(); n])
                    });
                    match met {
                        Ok(sum) => assert_eq!(sum, group.iter().map(|member| member + 1).sum::<usize>()),
                        Err(error) => {
                            shared.end(member, End::Failed("told".to_owned()));
                            return Some(error.message().to_owned());
                        }
                    }
                }
                shared.end(member, end.clone());
                None
            };
            let others: Vec<_> = (1..scripts.len())
                .map(|member| {
                    let shared = shared.clone();
                    loom::thread::spawn(move || run(member, &shared))
                })
                .collect();
            let mut told = vec![run(0, &shared)];
            told.extend(others.into_iter().map(|thread| thread.join().unwrap()));
            match shared.broken() {
                None => assert!(told.iter().all(Option::is_none), "{told:?}"),
                Some(why) => {
                    let why = format!("{why:?}");
                    assert!(told.iter().flatten().all(|text| *text == why), "{told:?}, not {why}");
                }
            }
            for seat in &shared.seats {
                assert!(whole(seat.given.lock()).is_none(), "a value is left at a seat");
                assert!(whole(seat.got.lock()).is_none(), "an answer is left at a seat");
            }
            let count = if shared.broken().is_some() { &counts.1 } else { &counts.0 };
            count.fetch_add(1, Ordering::Relaxed);
        });
        (well.load(Ordering::Relaxed), broken.load(Ordering::Relaxed))
    }

    #[test]
    fn two_meet_twice() {
        let (well, broken) = check(&[
            (&[(&[0, 1], 7), (&[0, 1], 8)], End::Returned),
            (&[(&[0, 1], 7), (&[0, 1], 8)], End::Returned),
        ]);
        assert!(well > 1 && broken == 0, "{well} {broken}");
    }

    #[test]
    fn three_meet_in_groups_that_share_one_of_them() {
        let (well, broken) = check(&[
            (&[(&[0, 1], 1)], End::Returned),
            (&[(&[0, 1], 1), (&[1, 2], 2)], End::Returned),
            (&[(&[1, 2], 2)], End::Returned),
        ]);
        assert!(well > 1 && broken == 0, "{well} {broken}");
    }

    #[test]
    fn calls_that_differ_are_told_to_both() {
        let (well, broken) = check(&[(&[(&[0, 1], 1)], End::Returned), (&[(&[0, 1], 2)], End::Returned)]);
        assert!(well == 0 && broken > 1, "{well} {broken}");
    }

    #[test]
    fn who_waits_for_one_that_has_ended_is_told() {
        for end in [End::Returned, End::Failed("why".to_owned()), End::Panicked("why".to_owned())] {
            let waits: &[(&[usize], u8)] = &[(&[0, 1], 1)];
            let scripts: &'static [Script] = Box::leak(Box::new([(waits, End::Returned), (&[], end)]));
            let (well, broken) = check(scripts);
            assert!(well == 0 && broken > 1, "{well} {broken}");
        }
    }

    #[test]
    fn three_that_wait_in_a_ring_are_told() {
        let (well, broken) = check(&[
            (&[(&[0, 1], 1), (&[0, 2], 3)], End::Returned),
            (&[(&[1, 2], 2), (&[0, 1], 1)], End::Returned),
            (&[(&[0, 2], 3), (&[1, 2], 2)], End::Returned),
        ]);
        assert!(well == 0 && broken > 1, "{well} {broken}");
    }
}
