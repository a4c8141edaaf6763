//! A network in front of a server: what goes in comes out later, on the other side.
//!
//! Threads that sleep, since timers of tokio are good to a millisecond only. Neither bandwidth nor loss nor the slow
//! start of TCP is imitated: what is measured through it is round trips.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

const CHUNK: usize = 64 << 10;
const ECHOES: usize = 25;

/// Listens on a loopback port of its own for as long as the process lives, and gives that port.
pub fn before(server: u16, round_trip: Duration) -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            thread::spawn(move || carry(client, server, round_trip));
        }
    });
    Ok(port)
}

/// The round trip that it really makes: a byte there and back on an open connection, the median.
pub fn measured(round_trip: Duration) -> Result<Duration> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = before(listener.local_addr()?.port(), round_trip)?;
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    client.set_nodelay(true)?;
    let (mut server, _) = listener.accept()?;
    server.set_nodelay(true)?;
    thread::spawn(move || {
        let mut byte = [0];
        while server.read_exact(&mut byte).and_then(|()| server.write_all(&byte)).is_ok() {}
    });
    let mut times = vec![];
    for _ in 0..ECHOES {
        let (start, mut byte) = (Instant::now(), [0]);
        client.write_all(&byte)?;
        client.read_exact(&mut byte)?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times[ECHOES / 2])
}

fn carry(client: TcpStream, server: u16, round_trip: Duration) -> Result<()> {
    // As long as SYN and its answer are under way.
    thread::sleep(round_trip);
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, server))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (answers, back) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || pipe(answers, back, round_trip / 2));
    pipe(client, server, round_trip / 2);
    Ok(())
}

/// One direction, each piece as much later as it is delayed.
fn pipe(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let (send, receive) = mpsc::channel::<(Instant, Vec<u8>)>();
    let writer = thread::spawn(move || {
        for (due, bytes) in receive {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        // The other side may be gone already.
        let _ = to.shutdown(Shutdown::Write);
    });
    let mut buffer = vec![0; CHUNK];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if send.send((Instant::now() + delay, buffer[..count].to_vec())).is_err() {
            break;
        }
    }
    drop(send);
    let _ = writer.join();
}
