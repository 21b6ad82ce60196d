use limiter::rate_limit;

struct Shop {
    most: u64,
}

impl Shop {
    const MAX: u64 = 3;

    #[rate_limit(qps = "Self::MAX")]
    async fn of_self(&self) -> Option<u64> {
        Some(1)
    }

    #[rate_limit(qps = "self.most", strategy = "token_bucket", burst = Self::MAX * 2)]
    async fn of_the_instance(&self) -> Option<u64> {
        Some(1)
    }
}

#[rate_limit(qps = N)]
async fn of_a_generic<const N: usize>() -> Option<usize> {
    Some(N)
}

#[rate_limit(qps = 3, samples = "count as u32")]
async fn of_a_parameter(count: u64) -> Option<u64> {
    Some(count)
}

fn main() {}
