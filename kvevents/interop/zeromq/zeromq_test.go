// Package zeromq has tests of kvevents/pubsub with go-zeromq at the other end.
package zeromq

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/ferrumkv/ferrumkv/kvevents"
	"github.com/ferrumkv/ferrumkv/kvevents/pubsub"
	"github.com/go-zeromq/zmq4"
	"github.com/stretchr/testify/require"
)

const topic = "kv@10.0.0.7:8000@model"

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func block(n uint64) *kvevents.Stored {
	return &kvevents.Stored{Hashes: []kvevents.Hash{{Number: n}}, Tokens: []uint32{uint32(n), 2, 3, 4}, BlockSize: 4, Medium: "GPU"}
}

// hashes are those of all blocks that a payload stores; −1 stands for AllBlocksCleared.
func hashes(t *testing.T, payload []byte) (found []int) {
	var d kvevents.Decoder
	_, err := d.Decode(payload, func(_ kvevents.Batch, e kvevents.Event) error {
		switch e := e.(type) {
		case *kvevents.Stored:
			for _, h := range e.Hashes {
				found = append(found, int(h.Number))
			}
		case *kvevents.Cleared:
			found = append(found, -1)
		}
		return nil
	})
	require.NoError(t, err)
	return found
}

// SUB and DEALER of go-zeromq follow our publisher.
func TestGoZeromqFollows(t *testing.T) {
	ctx := limited(t)
	p, err := pubsub.Listen(pubsub.PublisherOptions{Events: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0", Topic: topic})
	require.NoError(t, err)
	defer p.Close()
	events, replay := p.Endpoints()
	require.NoError(t, p.Publish(block(1), block(2))) // before anybody listens

	sub := zmq4.NewSub(ctx)
	defer sub.Close()
	require.NoError(t, sub.Dial(events))
	require.NoError(t, sub.SetOption(zmq4.OptionSubscribe, "kv@"))
	require.Eventually(t, func() bool { return p.Stats().Subscribers == 1 }, time.Minute, time.Millisecond)
	time.Sleep(100 * time.Millisecond) // until the subscription is there, too
	require.NoError(t, p.Publish(block(3)))
	m, err := sub.Recv()
	require.NoError(t, err)
	require.Len(t, m.Frames, 3)
	require.Equal(t, topic, string(m.Frames[0]))
	require.Equal(t, []int{3}, hashes(t, m.Frames[2]))
	last := binary.BigEndian.Uint64(m.Frames[1])

	dealer := zmq4.NewDealer(ctx)
	defer dealer.Close()
	require.NoError(t, dealer.Dial(replay))
	require.NoError(t, dealer.Send(zmq4.NewMsgFrom(nil, make([]byte, 8))))
	var all []int
	for sequence := uint64(0); ; sequence++ {
		m, err := dealer.Recv()
		require.NoError(t, err)
		require.Len(t, m.Frames, 4)
		require.Empty(t, m.Frames[0])
		if binary.BigEndian.Uint64(m.Frames[2]) == 1<<64-1 {
			require.Equal(t, last+1, sequence)
			break
		}
		require.Equal(t, topic, string(m.Frames[1]))
		require.Equal(t, sequence, binary.BigEndian.Uint64(m.Frames[2]))
		all = append(all, hashes(t, m.Frames[3])...)
	}
	require.Equal(t, []int{-1, 1, 2, 3}, all)
}

// Our subscriber follows PUB and ROUTER of go-zeromq: what came before is replayed.
func TestFollowsGoZeromq(t *testing.T) {
	ctx := limited(t)
	pub, router := zmq4.NewPub(ctx), zmq4.NewRouter(ctx)
	defer pub.Close()
	defer router.Close()
	require.NoError(t, pub.Listen("tcp://127.0.0.1:0"))
	require.NoError(t, router.Listen("tcp://127.0.0.1:0"))
	var log [][]byte
	send := func(n uint64) {
		log = append(log, kvevents.VLLM.AppendBatch(nil, kvevents.Batch{Time: 1}, block(n)))
		require.NoError(t, pub.Send(zmq4.NewMsgFrom([]byte(topic), binary.BigEndian.AppendUint64(nil, uint64(len(log)-1)), log[len(log)-1])))
	}
	send(1)
	send(2)
	go func() {
		for {
			m, err := router.Recv() // identity, "", where to begin
			if err != nil {
				return
			}
			for i := int(binary.BigEndian.Uint64(m.Frames[2])); i < len(log); i++ {
				_ = router.Send(zmq4.NewMsgFrom(m.Frames[0], nil, []byte(topic), binary.BigEndian.AppendUint64(nil, uint64(i)), log[i]))
			}
			_ = router.Send(zmq4.NewMsgFrom(m.Frames[0], nil, nil, binary.BigEndian.AppendUint64(nil, 1<<64-1), nil))
		}
	}()
	s := pubsub.Subscribe(pubsub.SubscriberOptions{Events: fmt.Sprint("tcp://", pub.Addr()), Replay: fmt.Sprint("tcp://", router.Addr()), Topic: "kv@"})
	defer s.Close()
	for i, want := range []int{1, 2} {
		m, err := s.Next(ctx)
		require.NoError(t, err)
		require.Equal(t, uint64(i), m.Sequence)
		require.Equal(t, topic, m.Topic)
		require.Equal(t, i == 0, m.Reset == pubsub.Joined)
		require.Equal(t, []int{want}, hashes(t, m.Payload))
	}
}
