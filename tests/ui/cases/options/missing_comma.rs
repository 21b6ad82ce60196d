use limiter::rate_limit;

#[rate_limit(qps = 3 window = "4s")]
async fn get_order() -> Option<()> {
    Some(())
}

fn main() {}
