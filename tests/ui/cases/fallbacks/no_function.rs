use limiter::rate_limit;

const BUSY: u64 = 3;

#[rate_limit(qps = 3, fallback = BUSY)]
async fn get(id: u64) -> u64 {
    id
}

fn main() {}
