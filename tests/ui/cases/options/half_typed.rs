use limiter::rate_limit;

#[rate_limit(key = , qps = 3)]
async fn one(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(key = id, qps)]
async fn two(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(= 3)]
async fn three(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(limits = ["3/s", ,])]
async fn four(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit]
async fn five(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {
    // All of them are still there.
    drop((one(1), two(2), three(3), four(4), five(5)));
}
