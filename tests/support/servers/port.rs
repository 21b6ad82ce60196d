//! Ports that nobody else takes, neither now nor while their server is down.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the ports that Linux gives to outgoing connections (32768 and up): a client that knocks in vain at a server
/// that is down could otherwise get the server's own port as its source, and hold it, or even be connected to itself.
const FIRST: u16 = 12_000;
const COUNT: u16 = 20_000;

pub struct Port {
    pub number: u16,
    /// Servers speak TCP: the same port of UDP is free, and holding it tells other test processes to keep away, also
    /// from one whose server is down for now.
    _claim: UdpSocket,
}

impl Port {
    pub fn claim() -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        // Processes that run at the same time begin at different places.
        let begin = std::process::id().wrapping_mul(97);
        for _ in 0..COUNT {
            let step = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
            let offset = u16::try_from(begin.wrapping_add(step) % u32::from(COUNT)).expect("less than COUNT");
            let number = FIRST + offset;
            let Ok(claim) = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)) else { continue };
            if TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Self { number, _claim: claim };
            }
        }
        panic!("no port from {FIRST} to {} is free", FIRST + COUNT - 1)
    }
}
