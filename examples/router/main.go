// Router sends each prompt to the engine that has cached most of it, according to the engines' events (packages kvevents, kvevents/pubsub and
// kvevents/index). It follows vLLM and SGLang, whose --kv-events-config switches events on, and the engine that this program can play.
//
//	go run ./examples/router engine -port 5557    # caches each line that it reads, and publishes that
//	go run ./examples/router engine -port 5657    # another one
//	go run ./examples/router route -engines 127.0.0.1:5557,127.0.0.1:5657
//
// The router prints where it would send each line that it reads. Here tokens are the bytes of a line; a real router gets the tokens from the engine, or
// from a tokenizer of its own.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/ferrumkv/ferrumkv/kvevents"
	"github.com/ferrumkv/ferrumkv/kvevents/index"
	"github.com/ferrumkv/ferrumkv/kvevents/pubsub"
)

const blockSize = 16 // tokens a block, of engines and index

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "router:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("router", flag.ContinueOnError)
	port := flags.Int("port", 5557, "`port` of the engine's events; the replay's is the next one")
	engines := flags.String("engines", "127.0.0.1:5557", "`addresses` of the engines' events")
	if len(args) == 0 || args[0] != "engine" && args[0] != "route" {
		return fmt.Errorf("the first argument is engine or route; each has -h")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if args[0] == "engine" {
		return engine(*port, in, out)
	}
	return route(ctx, strings.Split(*engines, ","), in, out)
}

// route follows engines, and says where lines would go.
func route(ctx context.Context, engines []string, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	caches, err := index.New(index.Options{BlockSize: blockSize})
	if err != nil {
		return err
	}
	for _, e := range engines {
		e = strings.TrimSpace(e)
		host, port, err := net.SplitHostPort(e)
		n, _ := strconv.Atoi(port)
		if err != nil || n == 0 {
			return fmt.Errorf("%q is no address such as 10.0.0.7:5557", e)
		}
		go follow(ctx, caches, e, pubsub.SubscriberOptions{Events: "tcp://" + e, Replay: "tcp://" + net.JoinHostPort(host, strconv.Itoa(n+1))}, out)
	}
	return lines(in, func(prompt []uint32) error {
		if found := caches.Find(nil, index.Query{Tokens: prompt}); len(found) > 0 {
			_, err := fmt.Fprintf(out, "to %s, which has %d of %d tokens\n", found[0].Owner, found[0].Tokens, len(prompt))
			return err
		}
		_, err := fmt.Fprintf(out, "to any engine: none has a block of these %d tokens\n", len(prompt))
		return err
	})
}

// follow keeps an index up to date with what an engine has cached, until the context ends.
func follow(ctx context.Context, caches *index.Index, engine string, o pubsub.SubscriberOptions, out io.Writer) {
	s := pubsub.Subscribe(o)
	defer s.Close()
	var d kvevents.Decoder
	for {
		m, err := s.Next(ctx)
		if err != nil {
			if ctx.Err() == nil {
				fmt.Fprintf(out, "%s: %v\n", engine, err)
			}
			return
		}
		if m.Reset != 0 {
			caches.Forget(engine)
			fmt.Fprintf(out, "%s: %v\n", engine, m.Reset)
		}
		_, err = d.Decode(m.Payload, func(_ kvevents.Batch, e kvevents.Event) error {
			if err := caches.Apply(engine, e); err != nil { // blocks were skipped; the events after this one count
				fmt.Fprintf(out, "%s: %v\n", engine, err)
			}
			return nil
		})
		if err != nil { // what the payload removed is unknown
			caches.Forget(engine)
			fmt.Fprintf(out, "%s: %v\n", engine, err)
		}
	}
}

// engine plays an engine: it caches the blocks of each line that it reads, and evicts those of a line that begins with a -.
func engine(port int, in io.Reader, out io.Writer) error {
	p, err := pubsub.Listen(pubsub.PublisherOptions{Events: fmt.Sprintf("tcp://127.0.0.1:%d", port), Replay: fmt.Sprintf("tcp://127.0.0.1:%d", port+1), Topic: pubsub.Topic("127.0.0.1:8000", "demo")})
	if err != nil {
		return err
	}
	defer p.Close()
	fmt.Fprintf(out, "events on port %d\n", port)
	has := map[uint64]bool{}
	return lines(in, func(prompt []uint32) error {
		remove := len(prompt) > 0 && prompt[0] == '-'
		if remove {
			prompt = prompt[1:]
		}
		parent, n := kvevents.Hash{}, 0
		for i, d := range kvevents.AppendVLLM(nil, kvevents.VLLMRoot("0"), prompt, blockSize, "", "") {
			h := kvevents.Hash{Number: d.VLLM()}
			var e kvevents.Event = &kvevents.Stored{Hashes: []kvevents.Hash{h}, Parent: parent, HasParent: i > 0, Tokens: prompt[i*blockSize : (i+1)*blockSize], BlockSize: blockSize, Medium: "GPU"}
			if remove {
				e = &kvevents.Removed{Hashes: []kvevents.Hash{h}, Medium: "GPU"}
			}
			if has[h.Number] == remove { // else it is so already
				if err := p.Publish(e); err != nil {
					return err
				}
				has[h.Number], n = !remove, n+1
			}
			parent = h
		}
		_, err := fmt.Fprintf(out, "%s %d blocks\n", map[bool]string{true: "removed", false: "stored"}[remove], n)
		return err
	})
}

// lines calls do with the bytes of each line, as tokens.
func lines(in io.Reader, do func([]uint32) error) error {
	s := bufio.NewScanner(in)
	s.Buffer(nil, 16<<20)
	for {
		if !s.Scan() {
			return s.Err()
		}
		var tokens []uint32
		for _, b := range s.Bytes() {
			tokens = append(tokens, uint32(b))
		}
		if err := do(tokens); err != nil {
			return err
		}
	}
}
