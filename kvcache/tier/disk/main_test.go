package disk

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("FERRUM_TEST_CHILD"); dir != "" {
		if base, is := strings.CutPrefix(dir, measureIn); is {
			_, err := Measure(ctx, Options{Dir: base, Payload: 4 << 20, Floor: 1})
			fmt.Println("measured", err)
			return
		}
		child(dir)
		return
	}
	testsize.Histories(20)
	os.Exit(m.Run())
}

// measureIn begins what a child of these tests is told that is to measure a directory.
const measureIn = "measure:"

var ctx = context.Background()

// payload is the largest one in most tests: two pages a slot.
const payload = 5000

// content is the payload of a key: nothing else is right under it.
func content(key tier.Key, n int) []byte {
	b := make([]byte, n)
	x := uint64(n)
	for i := range 8 {
		x = x<<8 ^ uint64(key[i])
	}
	for i := range b {
		x = x*6364136223846793005 + 1442695040888963407
		b[i] = byte(x >> 56)
	}
	return b
}

// keyOf is the key of a number.
func keyOf(n int) tier.Key { return tier.Key{byte(n), byte(n >> 8), byte(n >> 16), 1, 0xfe} }

// blockOf is the block of a number, with the parent of another one; 0: none.
func blockOf(n, parent int) tier.Block {
	b := tier.Block{Key: keyOf(n), Root: tier.Key{byte(n % 2), 7}, Bytes: content(keyOf(n), sizeOf(n))}
	b.Sum = b.Summed()
	if parent > 0 {
		b.Parent = keyOf(parent)
	}
	return b
}

func sizeOf(n int) int { return payload - n%3*600 }

// chainOf is the blocks of numbers from first on, each the parent of the next.
func chainOf(first, n int) (out []tier.Block) {
	for i := range n {
		parent := 0
		if i > 0 {
			parent = first + i - 1
		}
		out = append(out, blockOf(first+i, parent))
	}
	return out
}

// budget is one that has room for so many blocks.
func budget(slots int) int64 { return 3*page + int64(slots)*(2*page+entryBytes) }

// options are those of most tests: the files grow slot by slot, and are synced by Sync alone.
func options(sys fileSystem, slots int) Options {
	return Options{Dir: "/cache", Payload: payload, Bytes: budget(slots), Floor: 1, system: sys, step: 1, syncBytes: 1 << 40, syncEvery: 1 << 50,
		Namespace: Namespace{Fingerprint: tier.Key{9, 8, 7}, Group: 3, About: map[string]string{"model": "m"}}}
}
