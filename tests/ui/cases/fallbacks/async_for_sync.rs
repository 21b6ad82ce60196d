use limiter::{Rejected, rate_limit};

#[rate_limit(qps = 3, store = "local", fallback = "busy")]
fn get(id: u64) -> u64 {
    id
}

async fn busy(id: u64, _: Rejected) -> u64 {
    id
}

fn main() {}
