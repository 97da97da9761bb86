//! What a device computes and moves in its own memory per second.

use crate::DType;

/// A device by its peaks: a kernel takes the longer of its operations, each at the peak of its kind, and its bytes at the
/// peak of the memory.
///
/// The model of Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for multicore
/// architectures", Communications of the ACM 52(4), 2009. Real kernels stay below both roofs.
///
/// ```
/// use sharding_core::DType;
/// use sharding_core::plan::roofline::H100_SXM;
/// // A product of 8192x8192 matrices computes, an addition of them waits for the memory.
/// let (n, bytes) = (8192.0_f64, 3.0 * 8192.0 * 8192.0 * 2.0);
/// let product = H100_SXM.seconds(DType::BF16, 2.0 * n * n * n, 0.0, bytes);
/// assert!((product - 2.0 * n * n * n / 989.5e12).abs() < 1e-9);
/// assert_eq!(H100_SXM.seconds(DType::BF16, 0.0, n * n, bytes), bytes / 3.35e12);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roofline {
    /// What it is.
    pub name: &'static str,
    /// Operations per second of matrix products, by the dtype of the result; other dtypes run at `vector`.
    pub matrix: &'static [(DType, f64)],
    /// Operations per second of all else.
    pub vector: f64,
    /// Bytes per second read from and written to its memory.
    pub memory: f64,
    /// Bytes of its memory.
    pub capacity: u64,
    /// Where the figures come from.
    pub source: &'static str,
}

impl Roofline {
    /// Seconds of a kernel that does so many operations of matrix products with results of a dtype, then so many others, and
    /// reads and writes so many bytes.
    pub fn seconds(&self, dtype: DType, products: f64, others: f64, bytes: f64) -> f64 {
        let known = self.matrix.iter().find(|(own, _)| *own == dtype);
        let peak = known.map_or(self.vector, |(_, peak)| *peak);
        (products / peak + others / self.vector).max(bytes / self.memory)
    }
}

/// NVIDIA H100 in the SXM form, without sparsity (the data sheet's figures for f16, bf16 and i8 count it double).
pub const H100_SXM: Roofline = Roofline {
    name: "H100 SXM",
    matrix: &[
        (DType::F64, 67e12),
        (DType::F32, 67e12),
        (DType::F16, 989.5e12),
        (DType::BF16, 989.5e12),
        (DType::I8, 1979e12),
    ],
    vector: 67e12,
    memory: 3.35e12,
    capacity: 80_000_000_000,
    source: "NVIDIA H100 Tensor Core GPU data sheet, column H100 SXM; f32 without TF32",
};

/// NVIDIA H200 in the SXM form: the arithmetic of [`H100_SXM`] with more memory, and faster.
pub const H200_SXM: Roofline = Roofline {
    name: "H200 SXM",
    memory: 4.8e12,
    capacity: 141_000_000_000,
    source: "NVIDIA H200 Tensor Core GPU data sheet, column H200 SXM; f32 without TF32",
    ..H100_SXM
};

/// NVIDIA A100 of 80 GB in the SXM form, without sparsity.
pub const A100_SXM_80GB: Roofline = Roofline {
    name: "A100 SXM 80GB",
    matrix: &[
        (DType::F64, 19.5e12),
        (DType::F32, 19.5e12),
        (DType::F16, 312e12),
        (DType::BF16, 312e12),
        (DType::I8, 624e12),
    ],
    vector: 19.5e12,
    memory: 2.039e12,
    capacity: 80_000_000_000,
    source: "NVIDIA A100 Tensor Core GPU data sheet, column A100 80GB SXM; f32 without TF32",
};

/// NVIDIA B200 in the HGX form, without sparsity (the data sheet's figures for f16, bf16 and i8 count it double).
pub const B200_HGX: Roofline = Roofline {
    name: "B200 HGX",
    matrix: &[
        (DType::F64, 37e12),
        (DType::F32, 75e12),
        (DType::F16, 2250e12),
        (DType::BF16, 2250e12),
        (DType::I8, 4500e12),
    ],
    vector: 75e12,
    memory: 7.7e12,
    capacity: 180_000_000_000,
    source: "NVIDIA Blackwell data sheet (GB200 NVL72, HGX B200), specifications of one GPU, column HGX B200; f32 without TF32",
};

/// All of them.
pub const ALL: [Roofline; 4] = [A100_SXM_80GB, H100_SXM, H200_SXM, B200_HGX];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_bound_by_its_memory_or_its_operations() {
        for device in ALL {
            assert!(device.source.contains("data sheet") && device.capacity > device.memory as u64 / 100);
            // Reading all of its memory takes some hundredths of a second.
            let read = device.seconds(DType::BF16, 0.0, 0.0, device.capacity as f64);
            assert!((0.01..0.05).contains(&read), "{}: {read}", device.name);
            // A product of matrices, then as many operations of the other units: each at its own peak.
            let (products, others) =
                (device.seconds(DType::BF16, 1e15, 0.0, 0.0), device.seconds(DType::BF16, 0.0, 1e15, 0.0));
            assert!(products * 10.0 < others, "{}", device.name);
            assert_eq!(device.seconds(DType::BF16, 1e15, 1e15, 1.0), products + others);
            // Products of a dtype without a figure of its own run on the other units.
            assert_eq!(device.seconds(DType::I64, 1e15, 0.0, 0.0), others);
        }
    }
}
