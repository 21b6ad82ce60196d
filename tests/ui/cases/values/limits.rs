use limiter::rate_limit;

#[rate_limit(limits = ["3/s", "100", 0/m])]
async fn unreadable(id: u64) -> Option<u64> {
    Some(id)
}

#[rate_limit(limits = [])]
async fn empty(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {}
