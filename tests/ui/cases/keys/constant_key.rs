use limiter::rate_limit;

#[rate_limit(key = ["id", "name"], qps = 3)]
async fn get_order(id: u64, name: &str) -> Option<String> {
    Some(format!("{id} {name}"))
}

fn main() {}
