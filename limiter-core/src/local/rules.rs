//! The rules that a limiter has met, each with the table of its keys.

use once_cell::sync::OnceCell;

use super::table::{self, AnyTable};
use crate::Rule;

/// A table of chains. It only ever grows, so that looking a rule up takes no lock.
pub(super) struct Rules {
    chains: Box<[Link]>,
    max_keys: usize,
}

type Link = OnceCell<Box<Met>>;

struct Met {
    rule: Rule,
    table: Box<dyn AnyTable>,
    next: Link,
}

const CHAINS: usize = 256;

impl Rules {
    pub(super) fn new(max_keys: usize) -> Self {
        Self { chains: (0..CHAINS).map(|_| Link::new()).collect(), max_keys }
    }

    /// The table of `rule`, made where it is new.
    pub(super) fn table(&self, rule: &Rule) -> &dyn AnyTable {
        #[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
        let mut link = &self.chains[rule.fingerprint() as usize % CHAINS];
        loop {
            let met = link.get_or_init(|| {
                let table = table::of(rule, self.max_keys);
                Box::new(Met { rule: rule.clone(), table, next: Link::new() })
            });
            if met.rule == *rule {
                return &*met.table;
            }
            link = &met.next;
        }
    }
}

/// A chain is taken apart link by link: dropping the first would recurse through them all.
impl Drop for Rules {
    fn drop(&mut self) {
        for chain in &mut self.chains {
            let mut next = chain.take();
            while let Some(mut met) = next {
                next = met.next.take();
            }
        }
    }
}
