//! Bytes alive, peaks, and who counts them.

use backend_sim::{SimBackend, Simulation, record};
use sharding_core::backend::{Backend, Move};
use sharding_core::{BackendKind, DType, Device, ErrorKind, Shape};

const DEVICE: Device = Device::new(BackendKind::SIM, 0);

#[test]
fn bytes_are_counted_until_the_last_holder_goes() {
    let simulation = Simulation::current();
    let a = SimBackend.alloc(DEVICE, DType::F32, &Shape::from([10])).unwrap();
    let b = SimBackend.alloc(DEVICE, DType::I64, &Shape::from([3, 2])).unwrap();
    let view = a.slice(0, 2, 1);
    drop(a);
    assert_eq!(simulation.live_bytes(DEVICE), 40 + 48);
    drop(b);
    std::thread::spawn(move || drop(view)).join().unwrap();
    assert_eq!((simulation.live_bytes(DEVICE), simulation.peak_bytes(DEVICE)), (0, 88));
    simulation.reset();
    assert_eq!(simulation.peak_bytes(DEVICE), 0);
}

#[test]
fn a_record_nests_and_its_peak_holds_what_was_alive() {
    let _weights = SimBackend.alloc(DEVICE, DType::Bool, &Shape::from([100])).unwrap();
    let alloc = |n: usize| drop(SimBackend.alloc(DEVICE, DType::Bool, &Shape::from([n])).unwrap());
    let (inner, outer) = record(|| {
        alloc(30);
        let ((), inner) = record(|| alloc(20));
        inner
    });
    assert_eq!((inner.peak_bytes(), outer.peak_bytes()), (120, 130));
    assert_eq!(Simulation::current().peak_bytes(DEVICE), 130);
}

#[test]
fn a_record_that_panics_loses_nothing() {
    let simulation = Simulation::new();
    let alloc = |n: usize| drop(SimBackend.alloc(DEVICE, DType::Bool, &Shape::from([n])).unwrap());
    let (held, log) = simulation.record(|| {
        alloc(30);
        let held = SimBackend.alloc(DEVICE, DType::Bool, &Shape::from([4])).unwrap();
        let inner = std::panic::catch_unwind(|| {
            Simulation::current().record(|| {
                alloc(20);
                panic!("inside");
            })
        });
        assert!(inner.is_err());
        held
    });
    assert_eq!((log.peak_bytes(), simulation.live_bytes(DEVICE)), (30, 4));
    drop(held);
    assert_eq!((simulation.live_bytes(DEVICE), simulation.peak_bytes(DEVICE)), (0, 30));
}

#[test]
fn threads_count_apart_unless_they_enter_one_simulation() {
    let shared = Simulation::new();
    let held: Vec<_> = (0..2)
        .map(|_| {
            let shared = shared.clone();
            let work = move || shared.enter(|| SimBackend.alloc(DEVICE, DType::Bool, &Shape::from([7])));
            std::thread::spawn(work).join().unwrap().unwrap()
        })
        .collect();
    assert_eq!(shared.live_bytes(DEVICE), 14);
    assert_eq!(Simulation::current().live_bytes(DEVICE), 0);
    drop(held);
    assert_eq!(shared.live_bytes(DEVICE), 0);
}

#[test]
fn writing_a_shared_array_makes_a_copy_of_it() {
    let mut a = SimBackend.alloc(DEVICE, DType::Bool, &Shape::from([8])).unwrap();
    let snapshot = a.clone();
    let live = || Simulation::current().live_bytes(DEVICE);
    let store = |into: &mut _| SimBackend.copy(&mut [Move { op: "store", pieces: &[], into }]);
    store(&mut a).unwrap();
    assert_eq!(live(), 16);
    assert!(!a.same_as(&snapshot));
    store(&mut a).unwrap();
    SimBackend.write(&[0; 8], &mut a).unwrap();
    assert_eq!(live(), 16, "the only holder writes in place");
}

#[test]
fn values_are_refused_with_the_way_to_see_them() {
    let a = SimBackend.alloc(DEVICE, DType::F32, &Shape::from([2])).unwrap();
    let error = SimBackend.read(&a, &mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Backend);
    assert!(error.to_string().contains("f32[2] on sim:0 has no data"), "{error}");
    assert!(error.fix().unwrap().contains("BackendKind::CPU"));
}

#[test]
fn more_bytes_than_can_be_counted_are_an_error() {
    let huge = Shape::from([usize::MAX / 4]);
    let kind = |shape: &Shape| SimBackend.alloc(DEVICE, DType::F32, shape).map(drop).unwrap_err().kind();
    assert_eq!(kind(&Shape::from([usize::MAX / 2])), ErrorKind::Overflow);
    let _most = SimBackend.alloc(DEVICE, DType::F32, &huge).unwrap();
    assert_eq!(kind(&huge), ErrorKind::Overflow);
}

/// Two threads record one simulation at a time: each gets what it does itself, and the whole has both.
#[test]
fn records_of_several_threads_are_each_their_own() {
    let shared = Simulation::new();
    let begun = std::sync::Barrier::new(2);
    let copies = |log: &backend_sim::Log| log.kernels.get("copy").map_or(0, |kernel| kernel.count);
    let logs: Vec<backend_sim::Log> = std::thread::scope(|threads| {
        let one = |n: usize| {
            let (shared, begun) = (&shared, &begun);
            threads.spawn(move || {
                let work = || {
                    begun.wait();
                    for _ in 0..n {
                        // Entering what is in force already leaves the record in force.
                        shared.enter(|| {
                            let mut into = SimBackend.alloc(DEVICE, DType::Bool, &Shape::from([8])).unwrap();
                            let into = &mut into;
                            SimBackend.copy(&mut [Move { op: "store", pieces: &[], into }]).unwrap();
                        });
                    }
                    begun.wait();
                };
                shared.record(work).1
            })
        };
        [one(3), one(50)].into_iter().collect::<Vec<_>>().into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert_eq!(logs.iter().map(copies).collect::<Vec<_>>(), [3, 50]);
    assert_eq!(copies(&shared.log()), 53);
    for log in &logs {
        // A device has one memory: what the other thread holds at the time counts.
        assert!([8, 16].contains(&log.peak_bytes()), "{log}");
        assert_eq!(log.devices[&DEVICE].live, 0);
    }
}

/// A thread that enters what is in force in a record counts in it; nothing does once it has ended.
#[test]
fn a_record_is_of_all_threads_that_enter_it() {
    let simulation = Simulation::new();
    let alloc = || drop(SimBackend.alloc(DEVICE, DType::Bool, &Shape::from([5])).unwrap());
    let (inside, log) = simulation.record(|| {
        let inside = Simulation::current();
        let other = inside.clone();
        std::thread::spawn(move || other.enter(alloc)).join().unwrap();
        inside
    });
    assert_eq!(log.peak_bytes(), 5);
    let ((), later) = inside.record(|| ());
    inside.enter(alloc);
    assert_eq!((later.peak_bytes(), simulation.peak_bytes(DEVICE)), (0, 5));
}
