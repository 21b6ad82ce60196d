use limiter::rate_limit;

#[rate_limit(keys = "id", qps = 3)]
async fn get(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(colour = "red", qps = 3)]
async fn paint(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(rate = 3, per = "1s")]
async fn by_other_names(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
