use limiter::rate_limit;

#[rate_limit(strategy = "token_bucket", limits = ["3/s", "100/m"], burst = 10)]
async fn get_order() -> Option<()> {
    Some(())
}

fn main() {}
