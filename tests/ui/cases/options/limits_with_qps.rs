use limiter::rate_limit;

#[rate_limit(limits = ["3/s", "100/m"], qps = 3, window = "4s")]
async fn get(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
