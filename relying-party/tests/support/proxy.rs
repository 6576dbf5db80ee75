//! Below HTTP: a proxy that opens tunnels (CONNECT, RFC 9110 section 9.3.6) and notes what it is asked, and a server that
//! answers with whatever bytes.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Ends with its value.
pub(crate) struct ConnectProxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl ConnectProxy {
    /// Resolves every name to `target`; answers `status` in place of a tunnel if it is not 200.
    pub(crate) async fn start(target: SocketAddr, status: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let mut tasks = JoinSet::new();
        let notes = Arc::clone(&asked);
        tasks.spawn(async move {
            let mut tunnels = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tunnels.spawn(serve(client, target, status, Arc::clone(&notes)));
            }
        });
        Self { address, asked, _tasks: tasks }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All that was sent to it in the clear, request by request.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve(client: TcpStream, target: SocketAddr, status: u16, notes: Arc<Mutex<Vec<String>>>) {
    let mut client = BufReader::new(client);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(client.read_line(&mut head).await.unwrap(), 0, "half a request: {head}");
    }
    notes.lock().unwrap().push(head);
    client.write_all(format!("HTTP/1.1 {status} Said\r\n\r\n").as_bytes()).await.unwrap();
    if status != 200 {
        // What is read no more would reset the connection, and the answer with it.
        drop(client.read_to_end(&mut Vec::new()).await);
        return;
    }
    let mut server = TcpStream::connect(target).await.unwrap();
    // Either side hangs up when it has what it wants.
    drop(tokio::io::copy_bidirectional(&mut client, &mut server).await);
}

/// Answers each connection with the same bytes, then closes it or goes on at a byte a tenth of a second.
pub(crate) struct RawServer {
    pub(crate) url: String,
    _tasks: JoinSet<()>,
}

impl RawServer {
    pub(crate) async fn start(answer: &str, drips: bool) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answer = answer.to_owned();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                // The client may have had enough.
                drop(say(client, &answer, drips).await);
            }
        });
        Self { url, _tasks: tasks }
    }
}

async fn say(client: TcpStream, answer: &str, drips: bool) -> std::io::Result<()> {
    let mut client = BufReader::new(client);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        client.read_line(&mut line).await?;
    }
    client.write_all(answer.as_bytes()).await?;
    if !drips {
        return Ok(());
    }
    let mut tick = tokio::time::interval(std::time::Duration::from_millis(100));
    loop {
        tick.tick().await;
        client.write_all(b"x").await?;
    }
}
