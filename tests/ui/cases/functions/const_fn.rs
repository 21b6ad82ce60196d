use limiter::rate_limit;

#[rate_limit(qps = 3, store = "local")]
const fn get(id: u64) -> Option<u64> {
    Some(id)
}

const USED: Option<u64> = get(3);

fn main() {}
