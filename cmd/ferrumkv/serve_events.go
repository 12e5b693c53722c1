package main

import (
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"

	"github.com/ferrumkv/ferrumkv/cmd/internal/serving"
	"github.com/ferrumkv/ferrumkv/kvevents/pubsub"
)

// publish publishes what the cache has until it is stopped.
func (f *serveFlags) publish(engine *serving.Engine, at *net.TCPAddr, log *slog.Logger) (stop func() error, err error) {
	events, replay, err := endpoints(f.events)
	if err != nil {
		return nil, fmt.Errorf("--events %s: %w", f.events, err)
	}
	endpoint := f.endpoint
	if endpoint == "" {
		endpoint = at.String()
		if at.IP.IsUnspecified() {
			return nil, fmt.Errorf("--events: say with --endpoint IP:PORT by which of the addresses of %s routers know this server", at)
		}
	}
	p, err := pubsub.Listen(pubsub.PublisherOptions{Events: events, Replay: replay, Topic: pubsub.Topic(endpoint, f.name)})
	if err != nil {
		return nil, fmt.Errorf("--events %s: %w", f.events, err)
	}
	end, err := engine.Announce(p.Publish)
	if err != nil {
		_ = p.Close()
		return nil, fmt.Errorf("--events: %w", err)
	}
	events, replay = p.Endpoints()
	log.Info("events", "at", events, "replay", replay, "topic", pubsub.Topic(endpoint, f.name))
	return func() error {
		end()
		return p.Close()
	}, nil
}

// endpoints are the one of --events, and that of the replay: the next port.
func endpoints(events string) (_, replay string, err error) {
	address, found := strings.CutPrefix(events, "tcp://")
	host, port, err := net.SplitHostPort(address)
	n, failed := strconv.ParseUint(port, 10, 16)
	if !found || err != nil || failed != nil || n == 65535 {
		return "", "", fmt.Errorf("accepts an address such as tcp://127.0.0.1:5557")
	}
	if n > 0 {
		n++
	}
	return events, "tcp://" + net.JoinHostPort(host, strconv.FormatUint(n, 10)), nil
}
