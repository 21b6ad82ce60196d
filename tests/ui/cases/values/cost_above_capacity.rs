use limiter::rate_limit;

#[rate_limit(qps = 3, cost = 5)]
async fn get(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(strategy = "token_bucket", qps = 3, burst = 4, cost = 5)]
async fn bucket(id: u64) -> Option<u64> {
    Some(id)
}

const MAX: u64 = 3;

#[rate_limit(qps = MAX, cost = 5)]
async fn constant(id: u64) -> Option<u64> {
    Some(id)
}

const COST: u32 = 5;

#[rate_limit(qps = 3, cost = COST)]
async fn both_constant(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
