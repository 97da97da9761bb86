/// Names, tuples, a rename, what is declared, what is skipped.
struct Linear {
    #[sharding("tp", None, shape = [WIDTH, 4], dtype = BF16)]
    pub weight: Tensor,
    #[sharding(("dp", "tp"), name = "b")]
    bias: Option<Tensor>,
    #[sharding(placed)]
    heads: Tensor,
    #[sharding(skip)]
    eps: f64,
}

/// Fields by number, and a generic part.
#[sharding(crate = ::sharding_ops)]
struct Pair<T>(T, #[sharding(skip)] u8, Tensor);
