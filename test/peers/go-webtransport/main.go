// A go-libp2p host that listens on WebTransport and WebRTC-direct on loopback, answers ping, and echoes what comes on one protocol.
// It prints its addresses as one line of JSON, and ends with its standard input.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/network"
)

const echo = "/rookery-test/echo/1.0.0"

func main() {
	host, err := libp2p.New(libp2p.ListenAddrStrings(
		"/ip4/127.0.0.1/udp/0/quic-v1/webtransport",
		"/ip4/127.0.0.1/udp/0/webrtc-direct",
	))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer host.Close()
	host.SetStreamHandler(echo, func(stream network.Stream) {
		if _, err := io.Copy(stream, stream); err != nil {
			stream.Reset()
			return
		}
		stream.Close()
	})
	addrs := []string{}
	for _, addr := range host.Addrs() {
		addrs = append(addrs, fmt.Sprintf("%s/p2p/%s", addr, host.ID()))
	}
	line, err := json.Marshal(map[string]any{"peer": host.ID().String(), "addrs": addrs, "echo": echo})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(string(line))
	io.Copy(io.Discard, os.Stdin)
}
