//! A handshake with a configuration, in memory: what a client would see of this server.

use std::io;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};

/// More than any handshake takes.
const FLIGHTS: usize = 8;

#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// What the client says of the server.
    #[error(transparent)]
    Refused(#[from] rustls::Error),
    #[error("the handshake breaks off ({0})")]
    Io(#[from] io::Error),
    #[error("the handshake does not end")]
    Endless,
}

/// The client's side once it has seen and judged the server's certificate. One that is asked for a certificate of its
/// own has none, and by then has seen the server's.
pub(super) fn shake(
    client: ClientConfig,
    name: ServerName<'static>,
    server: &Arc<ServerConfig>,
) -> Result<ClientConnection, Broken> {
    let mut client = ClientConnection::new(Arc::new(client), name)?;
    let mut server = ServerConnection::new(Arc::clone(server))?;
    for _ in 0..FLIGHTS {
        pass(|bytes| client.write_tls(bytes), |bytes| server.read_tls(bytes))?;
        let _refused = server.process_new_packets();
        pass(|bytes| server.write_tls(bytes), |bytes| client.read_tls(bytes))?;
        client.process_new_packets()?;
        if !client.is_handshaking() {
            return Ok(client);
        }
    }
    Err(Broken::Endless)
}

/// What one side has to say, to the other.
fn pass(
    mut write: impl FnMut(&mut Vec<u8>) -> io::Result<usize>,
    mut read: impl FnMut(&mut &[u8]) -> io::Result<usize>,
) -> io::Result<()> {
    let mut bytes = vec![];
    while write(&mut bytes)? > 0 {}
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        if read(&mut rest)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}
