//! The planner that looks at all mesh axes together, on every case of every op.

use sharding_core::conformance::host::{HostArray, Random};
use sharding_core::op::{Case, Cases, OpDef, OperandKind, Registry};
use sharding_core::placement::Transition;
use sharding_core::plan::{AlphaBetaCost, CallPlan, CostUnit, PlannerKind, StepQuery, fabric};
use sharding_core::{dispatch_dyn, plan_call};
use sharding_ops::{
    BackendKind, CostModel, DeviceMapping, DeviceMesh, Error, Operand, Partial, Place, ReduceOp, Replicated,
    Result, Scope, Sharded, Tensor, TensorBuffer, TensorLayout, TensorOps, VolumeCost, explain, matmul,
};
use std::sync::Arc;

pub(crate) fn mesh(sizes: &[usize]) -> DeviceMesh {
    DeviceMesh::simulated(BackendKind::CPU, sizes, &["dp", "tp", "cp"][..sizes.len()]).unwrap()
}

/// A call's operands, placed.
pub(crate) struct Placed<'a> {
    def: &'static OpDef,
    case: &'a Case,
    tensors: Vec<Tensor>,
}

impl<'a> Placed<'a> {
    pub(crate) fn new(
        def: &'static OpDef,
        case: &'a Case,
        mesh: &DeviceMesh,
        random: Option<&mut Random>,
    ) -> Self {
        let whole = DeviceMapping::replicated(mesh);
        let mut random = random;
        let tensors = case.operands.iter().enumerate().map(|(i, operand)| {
            let meta = &operand.meta;
            let layout = TensorLayout::new(meta.dtype, &meta.shape, whole.clone()).unwrap();
            let x = Tensor::from_bytes(&HostArray::of_case(operand, i as u64).to_bytes(), layout).unwrap();
            let Some(random) = random.as_deref_mut() else { return x };
            let places: Vec<Place> = (0..mesh.ndim())
                .map(|_| match random.below(6) {
                    0 | 1 => Replicated,
                    2 => Partial(ReduceOp::Sum),
                    _ => Sharded(random.below(meta.shape.len().max(1)) as u8),
                })
                .collect();
            // What does not fit the shape stays whole.
            DeviceMapping::new(mesh, places).and_then(|mapping| x.transfer_to(&mapping)).unwrap_or(x)
        });
        Self { def, case, tensors: tensors.collect() }
    }

    fn with<T>(&self, f: impl FnOnce(&mut [Operand<'_>]) -> Result<T>) -> Result<(T, Vec<TensorBuffer>)> {
        let mut buffers: Vec<TensorBuffer> = self.tensors.iter().cloned().map(TensorBuffer::new).collect();
        let mut operands = Vec::new();
        let (mut next, mut free) = (0, buffers.iter_mut());
        for (declared, n) in self.def.operands.iter().zip(&self.case.groups) {
            let own = &self.tensors[next..next + usize::from(*n)];
            next += usize::from(*n);
            let mut written: Vec<_> = free.by_ref().take(usize::from(*n)).collect();
            operands.push(match declared.kind {
                OperandKind::Many => Operand::Many(own),
                OperandKind::Optional => Operand::Optional(own.first()),
                OperandKind::Written => Operand::Written(written.remove(0)),
                _ => Operand::Tensor(&own[0]),
            });
        }
        let value = f(&mut operands)?;
        drop(operands);
        Ok((value, buffers))
    }

    pub(crate) fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.tensors.iter()
    }

    pub(crate) fn plan(&self, scope: &Scope) -> Result<Arc<CallPlan>> {
        let plan = || self.with(|operands| plan_call(self.def, operands, &*self.case.args));
        Ok(scope.clone().enter(plan)?.0)
    }

    /// Layouts of the results, then of what was written.
    pub(crate) fn layouts(&self, scope: &Scope) -> Result<Vec<TensorLayout>> {
        let run = || self.with(|operands| dispatch_dyn(self.def, operands, &*self.case.args));
        let (results, buffers) = scope.clone().enter(run)?;
        let mut all = results.all();
        all.extend(buffers.iter().map(TensorBuffer::to_tensor));
        Ok(all.iter().map(|x| x.layout().clone()).collect())
    }

    /// Results, then what was written.
    fn run(&self, scope: &Scope) -> Result<Vec<HostArray>> {
        let run = || self.with(|operands| dispatch_dyn(self.def, operands, &*self.case.args));
        let (results, buffers) = scope.clone().enter(run)?;
        let mut all = results.all();
        all.extend(buffers.iter().map(TensorBuffer::to_tensor));
        all.iter().map(read).collect()
    }
}

fn read(x: &Tensor) -> Result<HostArray> {
    let whole = x.transfer_to(&DeviceMapping::replicated(x.mesh()))?;
    let backend = sharding_core::backend::backend_of(BackendKind::CPU)?;
    HostArray::read(backend.as_ref(), &whole.shards()[0])
}

fn scope(cost: &Arc<dyn CostModel>, planner: PlannerKind) -> Scope {
    (*Scope::current()).clone().with_cost(cost.clone()).with_planner(planner)
}

#[test]
fn is_never_dearer_and_gives_the_same() -> Result<()> {
    let seconds = AlphaBetaCost::new(fabric::INFINIBAND_NDR.link)
        .unwrap()
        .with_axis("tp", fabric::NVLINK_4.link)?
        .with_memory(1e12)?;
    let models: [Arc<dyn CostModel>; 2] = [Arc::new(VolumeCost), Arc::new(seconds)];
    let meshes = [mesh(&[3]), mesh(&[2, 2]), mesh(&[2, 3]), mesh(&[2, 1, 2])];
    let single = mesh(&[1]);
    let mut random = Random::new(4);
    let (mut ran, mut cheaper, mut refused) = (0, 0, 0);
    for def in Registry::get()?.ops() {
        let mut cases = Cases::new();
        (def.cases)(&mut cases);
        for case in cases.iter() {
            let want = Placed::new(def, case, &single, None).run(&Scope::current())?;
            for (mesh, round) in meshes.iter().flat_map(|mesh| (0..6).map(move |round| (mesh, round))) {
                let call = Placed::new(def, case, mesh, Some(&mut random));
                let cost = &models[round % 2];
                let Ok(per_axis) = call.plan(&scope(cost, PlannerKind::PerAxis)) else {
                    refused += 1;
                    continue;
                };
                let joint = scope(cost, PlannerKind::Joint);
                let layouts = || call.tensors.iter().map(|x| x.layout().to_string()).collect::<Vec<_>>();
                let (dear, cheap) = (per_axis.price(), call.plan(&joint)?.price());
                assert!(
                    cheap <= dear * (1.0 + 1e-9),
                    "{} of {:?} costs {cheap}, axis by axis {dear}",
                    def.name,
                    layouts()
                );
                cheaper += usize::from(cheap < dear * (1.0 - 1e-6));
                let got = call.run(&joint)?;
                assert_eq!(got.len(), want.len());
                for (i, (want, got)) in want.iter().zip(&got).enumerate() {
                    let difference = want.first_difference(got);
                    assert!(
                        difference.is_none(),
                        "{} of {:?}, value {i}: {difference:?}",
                        def.name,
                        layouts()
                    );
                }
                ran += 1;
            }
        }
    }
    println!("{ran} calls, {cheaper} of them cheaper, {refused} refused by both");
    assert!(ran > 1000 && cheaper > 20, "{ran} calls ran, {cheaper} of them cheaper");
    Ok(())
}

/// The volume model's prices as seconds, which the table of what ran has of every step, local ones too.
#[derive(Debug)]
struct Volume;

impl CostModel for Volume {
    fn key(&self) -> u64 {
        0x5ec
    }
    fn unit(&self) -> CostUnit {
        CostUnit::Seconds
    }
    fn transition(&self, transition: Transition, bytes: f64, mesh: &DeviceMesh, axis: usize) -> f64 {
        VolumeCost.transition(transition, bytes, mesh, axis)
    }
    fn step(&self, query: &StepQuery<'_>) -> f64 {
        VolumeCost.step(query)
    }
}

/// A plan's price is what its call moves, by the table of what ran: also of operands that an exchange reads where they lie.
#[test]
fn a_call_costs_what_it_moves() -> Result<()> {
    let meshes = [mesh(&[3]), mesh(&[2, 2]), mesh(&[2, 3]), mesh(&[2, 1, 2])];
    let cost: Arc<dyn CostModel> = Arc::new(Volume);
    let mut random = Random::new(5);
    let (mut exchanged, mut plain) = (0, 0);
    for def in Registry::get()?.ops() {
        let mut cases = Cases::new();
        (def.cases)(&mut cases);
        for case in cases.iter() {
            for (mesh, round) in meshes.iter().flat_map(|mesh| (0..6).map(move |round| (mesh, round))) {
                let call = Placed::new(def, case, mesh, Some(&mut random));
                let planner = [PlannerKind::PerAxis, PlannerKind::Joint][round % 2];
                let scope = scope(&cost, planner);
                let Ok(plan) = call.plan(&scope) else { continue };
                let rows = &plan.plan().rows;
                // Other collectives of stages count at their score.
                if rows.iter().any(|row| row.stages.iter().any(|stage| !stage.exchanges())) {
                    continue;
                }
                let ran = scope.clone().enter(|| explain(|| call.layouts(&Scope::current())));
                ran.value?;
                let (price, moved) = (plan.price(), ran.report.seconds().unwrap_or(0.0));
                let layouts = || call.tensors.iter().map(|x| x.layout().to_string()).collect::<Vec<_>>();
                assert!(
                    (price - moved).abs() <= 1e-9 * moved,
                    "{} of {:?} costs {price}, and moves\n{}",
                    def.name,
                    layouts(),
                    ran.report
                );
                let exchanges = rows.iter().any(|row| row.exchanges());
                exchanged += usize::from(exchanges);
                plain += usize::from(!exchanges && moved > 0.0);
            }
        }
    }
    assert!(exchanged > 200 && plain > 500, "{exchanged} with exchanges, {plain} without");
    Ok(())
}

/// The call of `PlannerKind::Joint`'s page: gathering all columns of `a`, or exchanging a part of `b`.
#[test]
fn a_product_is_eight_times_cheaper() -> Result<()> {
    let mesh = mesh(&[2, 4]);
    let full = |places: [Place; 2]| -> Result<Tensor> {
        let layout = DeviceMapping::new(&mesh, places)?;
        Tensor::from_slice(&(0..4096).map(|i| (i % 7) as f32 - 3.0).collect::<Vec<_>>(), [64, 64], &layout)
    };
    let (a, b) = (full([Replicated, Sharded(1)])?, full([Sharded(1), Sharded(1)])?);
    let def = Registry::get()?.op("matmul")?;
    let price = |planner| {
        let scope = (*Scope::current()).clone().with_planner(planner);
        let plan = || plan_call(def, &[Operand::Tensor(&a), Operand::Tensor(&b)], &matmul {});
        Ok::<f64, Error>(scope.enter(plan)?.price())
    };
    assert_eq!(price(PlannerKind::PerAxis)?, 12288.0);
    assert_eq!(price(PlannerKind::Joint)?, 1536.0);
    // Another planner is another plan: the cache tells them apart.
    assert_eq!(price(PlannerKind::PerAxis)?, 12288.0);
    let joint = (*Scope::current()).clone().with_planner(PlannerKind::Joint);
    assert_eq!(joint.enter(|| a.matmul(&b))?.to_vec::<f32>()?, a.matmul(&b)?.to_vec::<f32>()?);
    Ok(())
}
