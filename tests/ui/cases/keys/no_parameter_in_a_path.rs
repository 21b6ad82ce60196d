use limiter::rate_limit;

struct User {
    id: u64,
}

#[rate_limit(qps = 3, key = "usr.id")]
async fn get(user: User) -> Option<u64> {
    Some(user.id)
}

fn main() {}
