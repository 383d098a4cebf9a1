//! Servers that misbehave below the protocol: each connection is served by a function on a thread.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Serves every connection with `serve`, which gets the connection's number; returns the port.
pub fn listen(serve: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = Arc::new(serve);
    let number = Arc::new(AtomicUsize::new(0));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (serve, number) = (serve.clone(), number.fetch_add(1, Ordering::Relaxed));
            std::thread::spawn(move || serve(stream, number));
        }
    });
    port
}

/// Reads one HTTP/1.1 request with a content length; its head in lower case, and its body.
pub fn request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 65536];
    loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..at]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let end = at + 4 + length.unwrap_or(0usize);
            while bytes.len() < end {
                match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => return None,
                    Ok(read) => bytes.extend_from_slice(&buffer[..read]),
                }
            }
            return Some((head, bytes[at + 4..end].to_vec()));
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    }
}

/// Answers one request on this connection, then closes it.
pub fn answer(stream: &mut TcpStream, status: &str, headers: &str, body: &[u8]) {
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n", body.len());
    // The client may be gone, which is part of some tests.
    let _gone = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
}

/// Holds a connection open without a word until the other side closes it.
pub fn hold(mut stream: TcpStream) {
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
}
