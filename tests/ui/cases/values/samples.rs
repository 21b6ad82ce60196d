use limiter::rate_limit;

#[rate_limit(qps = 3, samples = 1001)]
async fn too_many(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(qps = 3, samples = 0)]
async fn none(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
