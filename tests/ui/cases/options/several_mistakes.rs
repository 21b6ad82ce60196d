use limiter::rate_limit;

#[rate_limit(
    strategy = "sliding_windw",
    keys = "id",
    qps = 0,
    window = "4x",
    wait = "0s",
    fallback = "busy()",
    mode = "shadwo"
)]
async fn get(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
