use limiter::rate_limit;

const MAX: u128 = (1 << 64) + 1;

#[rate_limit(qps = MAX)]
async fn get_order() -> Option<()> {
    Some(())
}

fn main() {}
