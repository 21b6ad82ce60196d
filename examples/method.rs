//! Methods, and methods of traits: the signature stays as it is.

use limiter::{Rejected, rate_limit};

struct Shop {
    tenant: &'static str,
    sold: u32,
}

impl Shop {
    /// Each tenant may look three times a minute; all its users together.
    #[rate_limit(key = "self.tenant", qps = 3, window = "1m", fallback = "Self::busy")]
    async fn look(&self, user: &str) -> String {
        format!("{user} looks at what {} has", self.tenant)
    }

    fn busy(&self, user: &str, why: Rejected) -> String {
        format!("{user} waits outside of {} for {:.0?}", self.tenant, why.retry_after().unwrap_or_default())
    }

    /// Each user of each tenant may buy once a minute.
    #[rate_limit(key = (self.tenant, user), qps = 1, window = "1m")]
    async fn buy(&mut self, user: &str) -> Result<String, Rejected> {
        self.sold += 1;
        Ok(format!("{user} buys number {} of {}", self.sold, self.tenant))
    }
}

trait Backup {
    async fn back_up(&self) -> Result<&'static str, Rejected>;
}

impl Backup for Shop {
    #[rate_limit(key = "self.tenant", qps = 1, window = "1h")]
    async fn back_up(&self) -> Result<&'static str, Rejected> {
        Ok("backed up")
    }
}

#[tokio::main]
async fn main() {
    let mut acme = Shop { tenant: "acme", sold: 0 };
    let umbrella = Shop { tenant: "umbrella", sold: 0 };

    for user in ["alice", "bob", "carol", "dave"] {
        println!("{}", acme.look(user).await);
    }
    println!("{}", umbrella.look("dave").await);

    println!();
    for user in ["alice", "alice", "bob"] {
        match acme.buy(user).await {
            Ok(bought) => println!("{bought}"),
            Err(why) => println!("{user} may buy {} in {:?}", why.limit(), why.window()),
        }
    }

    println!();
    println!("{:?}", acme.back_up().await.map_err(|why| why.reason()));
    println!("{:?}", acme.back_up().await.map_err(|why| why.reason()));
}
