package gputest

import (
	"bytes"
	"errors"

	"github.com/ferrumkv/ferrumkv/backend"
)

// exerciseBlocks packs a block of two planes and unpacks it as another, and checks what comes of it.
func exerciseBlocks[B backend.Buffer](be backend.Backend[B], s backend.Stream, a, b B) (err error) {
	const each, blocks = 1000, 3
	image := make([]byte, 2*each)
	for i := range image {
		image[i] = byte(i % 251)
	}
	var set backend.BlockSet
	host, err := backend.HostAlloc(be, 2*each+1)
	if err != nil {
		return err
	}
	defer func() {
		if set != nil {
			err = errors.Join(err, set.Close())
		}
		err = errors.Join(err, host.Close())
	}()
	// The planes are the first bytes of buffers.
	var planes [2]backend.BlockPlane[B]
	for i, buf := range []B{a, b} {
		sub, err := be.SubBuffer(buf, 0, backend.Int8, each*blocks)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, be.Free(sub)) }()
		planes[i] = backend.BlockPlane[B]{Buf: sub, Each: each}
		if err := be.Upload(s, buf, each, image[i*each:][:each]); err != nil {
			return err
		}
	}
	if set, err = backend.NewBlockSet(be, planes[:]); err != nil {
		return err
	}
	if err := errors.Join(set.Pack(s, []uint32{1}, host, 1), set.Unpack(s, []uint32{2}, host, 1), s.Sync()); err != nil {
		return err
	}
	got := make([]byte, each)
	for i, buf := range []B{a, b} {
		if err := be.Download(s, got, buf, 2*each); err != nil {
			return err
		}
		if !bytes.Equal(got, image[i*each:][:each]) {
			return errors.New("another block came back")
		}
	}
	if !bytes.Equal(host.Bytes()[1:], image) {
		return errors.New("another block was packed")
	}
	return nil
}
