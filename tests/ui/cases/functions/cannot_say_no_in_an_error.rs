use limiter::rate_limit;

#[rate_limit(qps = 3)]
async fn text() -> Result<u64, String> {
    Ok(1)
}

#[rate_limit(qps = 3, store = "local")]
fn boxed() -> Result<u64, std::io::Error> {
    Ok(1)
}

struct Service;

impl Service {
    #[rate_limit(qps = 3, key = "id")]
    fn future(&self, id: u64) -> impl Future<Output = Vec<u64>> {
        async move { vec![id] }
    }
}

fn main() {}
