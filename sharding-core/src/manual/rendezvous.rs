//! Where the threads of a region meet: the [`Agreement`], and a seat for each member to wait at.

use super::agreement::{Agreement, Arrival, End};
use super::call::{self, Call};
use super::grid::{Grid, Group};
use super::pool::lock;
use super::varies::Varies;
use crate::dispatch::guarded;
use crate::{Error, ErrorKind, Result, Tensor};
use std::sync::{Arc, Condvar, Mutex, PoisonError, TryLockError};

/// So many looks at the seat before a member sleeps: the others often come within a few microseconds.
const LOOKS: usize = 200;

/// What a member brings, and over which axes it may vary, the member's way to here included.
pub(super) struct Given {
    pub(super) tensor: Tensor,
    pub(super) varies: Varies,
}

enum Got {
    Tensor(Tensor),
    Error(Error),
    Broken,
}

#[derive(Default)]
struct Seat {
    given: Mutex<Option<Given>>,
    got: Mutex<Option<Got>>,
    filled: Condvar,
}

pub(super) struct Rendezvous {
    grid: Arc<Grid>,
    agreement: Mutex<Agreement<Call>>,
    seats: Vec<Seat>,
}

impl Rendezvous {
    pub(super) fn new(grid: Arc<Grid>) -> Self {
        let n = grid.members.len();
        Self {
            grid,
            agreement: Mutex::new(Agreement::new(n)),
            seats: (0..n).map(|_| Seat::default()).collect(),
        }
    }

    /// Comes with a value, waits for the others of the group, and gives what `work` made for this member. `work` runs on the
    /// thread of whoever comes last, with the values in the order of the group, and makes as many.
    ///
    /// # Errors
    /// [`ErrorKind::Manual`] if the members disagree, else what `work` says: all of them are told.
    pub(super) fn meet(
        &self,
        member: usize,
        group: &Group,
        call: Call,
        given: Given,
        work: impl FnOnce(Vec<Given>) -> Result<Vec<Tensor>>,
    ) -> Result<Tensor> {
        let seat = self.seat(member)?;
        *lock(&seat.given) = Some(given);
        let mut agreement = lock(&self.agreement);
        let arrival = agreement.arrive(member, group.key, &group.members, Arc::new(call));
        match arrival {
            Arrival::Wait => {
                drop(agreement);
                match seat.wait() {
                    Got::Tensor(tensor) => Ok(tensor),
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
                let seats = group.members.iter().filter_map(|member| self.seats.get(*member));
                let all: Vec<Given> = seats.filter_map(|seat| lock(&seat.given).take()).collect();
                let made = guarded("the collective", || {
                    let made = work(all)?;
                    if made.len() == group.members.len() {
                        return Ok(made);
                    }
                    Err(Error::new(ErrorKind::Internal, "a collective made too few values"))
                });
                self.hand_out(member, group, made)
            }
        }
    }

    /// Gives every member of the group its value, or all the same error; returns this member's.
    fn hand_out(&self, member: usize, group: &Group, made: Result<Vec<Tensor>>) -> Result<Tensor> {
        let mut made = made.map(Vec::into_iter);
        let mut own = None;
        for other in group.members.iter() {
            let next = match &mut made {
                Ok(made) => match made.next() {
                    Some(tensor) => Ok(tensor),
                    None => continue,
                },
                Err(error) => Err(error.again()),
            };
            if *other == member {
                own = Some(next);
            } else if let Some(seat) = self.seats.get(*other) {
                seat.put(next.map_or_else(Got::Error, Got::Tensor));
            }
        }
        own.unwrap_or_else(|| Err(Error::new(ErrorKind::Internal, "a member is not in its own group")))
    }

    /// A member ends; whoever waits in vain is told.
    pub(super) fn end(&self, member: usize, end: End) {
        let mut agreement = lock(&self.agreement);
        agreement.end(member, end);
        self.tell(&mut agreement, None);
    }

    /// Wakes all that wait if there is a break.
    fn tell(&self, agreement: &mut Agreement<Call>, but: Option<usize>) {
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

    /// The break as an error, and the member that ended by itself, if that was it.
    pub(super) fn broken(&self) -> Option<(Error, Option<usize>)> {
        let agreement = lock(&self.agreement);
        let why = agreement.broken()?;
        let ended = match &**why {
            super::agreement::Break::Ended { member, .. } => Some(*member),
            _ => None,
        };
        Some((call::broken(&self.grid, why), ended))
    }

    fn give_up(&self, seat: &Seat) -> Result<Tensor> {
        // What was brought is dropped here, not when the region ends.
        drop(lock(&seat.given).take());
        Err(match self.broken() {
            Some((error, _)) => error,
            None => Error::new(ErrorKind::Internal, "a member was woken for nothing"),
        })
    }

    fn seat(&self, member: usize) -> Result<&Seat> {
        let none = || Error::new(ErrorKind::Internal, format!("the region has no member {member}"));
        self.seats.get(member).ok_or_else(none)
    }
}

impl Seat {
    fn put(&self, got: Got) {
        *lock(&self.got) = Some(got);
        self.filled.notify_one();
    }

    fn wait(&self) -> Got {
        for _ in 0..LOOKS {
            let look = match self.got.try_lock() {
                Ok(mut got) => got.take(),
                Err(TryLockError::Poisoned(got)) => got.into_inner().take(),
                Err(TryLockError::WouldBlock) => None,
            };
            if let Some(got) = look {
                return got;
            }
            std::hint::spin_loop();
        }
        let mut got = lock(&self.got);
        loop {
            match got.take() {
                Some(got) => return got,
                None => got = self.filled.wait(got).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}
