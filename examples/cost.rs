//! Calls that take more than one permit, and calls that take none.

use limiter::{Rejected, rate_limit};

struct Request {
    user: &'static str,
    rows: Vec<u32>,
    internal: bool,
}

/// 100 rows a minute for each user, however many calls they come in. Our own services are not limited.
#[rate_limit(
    strategy = "token_bucket",
    key = "user",
    qps = 100,
    window = "1m",
    cost = "r.rows.len()",
    unless = "r.internal",
    decision = d
)]
async fn import(r: Request) -> Result<String, Rejected> {
    let left = if r.internal { "no limit".to_owned() } else { format!("{} left", d.remaining()) };
    Ok(format!("{} rows of {}: imported, {left}", r.rows.len(), r.user))
}

#[tokio::main]
async fn main() {
    let request = |rows: u32, internal| Request { user: "alice", rows: (0..rows).collect(), internal };

    for (rows, internal) in [(60, false), (30, false), (20, false), (10, false), (101, false), (500, true)] {
        match import(request(rows, internal)).await {
            Ok(imported) => println!("{imported}"),
            Err(why) => println!("{rows} rows of alice: {:?}, {} left", why.reason(), why.remaining()),
        }
    }
}
