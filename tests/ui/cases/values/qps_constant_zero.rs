use limiter::rate_limit;

const MAX: i32 = 0;

#[rate_limit(qps = MAX)]
async fn get(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
