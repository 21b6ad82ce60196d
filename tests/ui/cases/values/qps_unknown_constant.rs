use limiter::rate_limit;

#[rate_limit(qps = MOST)]
async fn get(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
