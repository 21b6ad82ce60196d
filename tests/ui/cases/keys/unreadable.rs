use limiter::rate_limit;

#[rate_limit(qps = 3, key = "id.(")]
async fn get(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(qps = 3, key = "id, name")]
async fn several(id: u64, name: &str) -> Option<usize> {
    Some(id as usize + name.len())
}

#[rate_limit(qps = 3, key = |id| id)]
async fn closure(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
