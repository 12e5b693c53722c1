package disk

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/seal"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/tiertest"
)

// The tier keeps the contract, on the machine's own file system.
func TestContract(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"plain":     func(*Options) {},
		"encrypted": func(o *Options) { o.Secret, o.system = make([]byte, seal.SecretBytes), newMemoryFS() },
		"durable":   func(o *Options) { o.Durable, o.system = true, newMemoryFS() },
	} {
		t.Run(name, func(t *testing.T) {
			stores := map[string]fileSystem{}
			tiertest.Run(t, func(t *testing.T, to tiertest.Options) tier.Tier {
				// The suite's budgets are a few payloads, and as large as what the tier needs besides.
				stride := (&codec{payload: int64(to.Payload)}).stride()
				o := Options{Dir: to.Dir, Payload: int64(to.Payload), Bytes: to.Bytes + 3*page + to.Bytes/stride*entryBytes, Floor: 1}
				change(&o)
				if o.system != nil { // of a test, there is one a directory
					if stores[o.Dir] == nil {
						stores[o.Dir] = newMemoryFS()
					}
					o.system = stores[o.Dir]
				}
				d, err := Open(o)
				require.NoError(t, err)
				return d
			})
		})
	}
}
