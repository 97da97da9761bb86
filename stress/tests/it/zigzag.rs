//! A placement of another crate goes through transfers, rules and plans.

use super::{tensor, values};
use sharding_core::BackendKind;
use sharding_ops::{
    DeviceMapping, DeviceMesh, Index, Place, Policy, Result, Tensor, TransitionKind, TransitionSet, concat,
    flip, matmul, pad, relu, reshape, roll, slice, split, tile,
};
use stress::zigzag::Zigzag;

fn mesh(devices: usize) -> Result<DeviceMesh> {
    DeviceMesh::simulated(BackendKind::CPU, [devices], ["sp"])
}

#[test]
fn moves_there_and_back() -> Result<()> {
    for devices in 1..5 {
        for rows in [0, 1, 3, 8, 10] {
            let mesh = mesh(devices)?;
            let zigzag = Place::custom(Zigzag { axis: 0 });
            for from in [Place::Replicated, Place::Sharded(0), Place::Sharded(1)] {
                let x = tensor(&mesh, &[rows, 3], &[from])?;
                let there = x.transfer_to(&DeviceMapping::new(&mesh, [zigzag])?)?;
                assert_eq!(there.to_vec::<f32>()?, values(rows * 3));
                let back = there.transfer_to(x.mapping())?;
                for position in 0..devices {
                    assert_eq!(back.shard_to_vec::<f32>(position)?, x.shard_to_vec::<f32>(position)?);
                }
            }
        }
    }
    Ok(())
}

#[test]
fn holds_an_early_and_a_late_chunk() -> Result<()> {
    let mesh = mesh(2)?;
    let x = tensor(&mesh, &[8], &[Place::custom(Zigzag { axis: 0 })])?;
    let all = values(8);
    assert_eq!(x.shard_to_vec::<f32>(0)?, [all[0], all[1], all[6], all[7]]);
    assert_eq!(x.shard_to_vec::<f32>(1)?, all[2..6]);
    Ok(())
}

#[test]
fn rules_carry_it_without_moving_anything() -> Result<()> {
    let mesh = mesh(2)?;
    let zigzag = Place::custom(Zigzag { axis: 0 });
    let x = tensor(&mesh, &[7, 4], &[zigzag])?;
    let w = tensor(&mesh, &[4, 5], &[Place::Replicated])?;
    let y = sharding_ops::auto_reshard(sharding_ops::Policy::raise(), || relu(&matmul(&x, &w)?))?;
    assert_eq!(y.layout().places(), [zigzag]);
    let whole = mesh1(&[7, 4], &[4, 5])?;
    assert_eq!(y.to_vec::<f32>()?, whole);
    Ok(())
}

/// `relu(x w)` on one device.
fn mesh1(x: &[usize], w: &[usize]) -> Result<Vec<f32>> {
    let one = mesh(1)?;
    relu(&matmul(&tensor(&one, x, &[Place::Replicated])?, &tensor(&one, w, &[Place::Replicated])?)?)?.to_vec()
}

/// Its chunks in reverse order are again its chunks: nothing moves where they are of one size.
#[test]
fn a_placement_that_is_its_mirror_image_is_flipped_in_place() -> Result<()> {
    let x = tensor(&mesh(2)?, &[8, 2], &[Place::custom(Zigzag { axis: 0 })])?;
    let report = sharding_core::trace::explain(|| flip(&x, &[0])).report;
    assert_eq!(report.bytes(), 0.0, "{report}");
    Ok(())
}

#[test]
fn movement_ops_take_it_and_move_no_operand() -> Result<()> {
    let zigzag = Place::custom(Zigzag { axis: 0 });
    for devices in 2..5 {
        for rows in [9, 16] {
            let mesh = mesh(devices)?;
            let x = tensor(&mesh, &[rows, 4], &[zigzag])?;
            let whole = tensor(&mesh, &[rows, 4], &[Place::Replicated])?;
            // What devices lack of their results is exchanged inside the op, which counts as S>S: nothing else has to be allowed.
            let inside = Policy::silent().allow(TransitionSet::of(&[TransitionKind::SS]));
            let check = |op: &dyn Fn(&Tensor) -> Result<Tensor>| -> Result<()> {
                let got = sharding_ops::auto_reshard(inside, || op(&x))?;
                assert_eq!(got.layout().places(), [Place::Sharded(0)]);
                assert_eq!(got.to_vec::<f32>()?, op(&whole)?.to_vec::<f32>()?);
                Ok(())
            };
            check(&|x| slice(x, &[Index::from(1..8)]))?;
            check(&|x| slice(x, &[Index::ALL.step(-1), Index::from(1..)]))?;
            check(&|x| concat(&[x.clone(), x.clone()], 0))?;
            check(&|x| reshape(x, &[-1]))?;
            check(&|x| pad(x, &[(1, 2), (0, 1)], 7.0.into()))?;
            // Where most is needed everywhere, bringing it together may cost less.
            assert_eq!(tile(&x, &[2, 1])?.to_vec::<f32>()?, tile(&whole, &[2, 1])?.to_vec::<f32>()?);
            for (i, piece) in split(&whole, [5, rows - 5].into(), 0)?.iter().enumerate() {
                let got = sharding_ops::auto_reshard(inside, || split(&x, [5, rows - 5].into(), 0))?;
                assert_eq!(got[i].to_vec::<f32>()?, piece.to_vec::<f32>()?);
            }
            // What keeps its shape keeps its placement.
            type Keeps<'a> = &'a dyn Fn(&Tensor) -> Result<Tensor>;
            let keeps: [Keeps<'_>; 3] =
                [&|x| flip(x, &[0]), &|x| roll(x, 3, 0), &|x| flip(&roll(x, -1, 1)?, &[1, 0])];
            for op in keeps {
                let got = sharding_ops::auto_reshard(inside, || op(&x))?;
                assert_eq!(got.layout().places(), [zigzag]);
                assert_eq!(got.to_vec::<f32>()?, op(&whole)?.to_vec::<f32>()?);
            }
        }
    }
    Ok(())
}
