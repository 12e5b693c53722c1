//go:build linux && cgo && !nocuda

package cuda

import (
	"sync"

	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cuda/driver"
	"github.com/ferrumkv/ferrumkv/backend/internal/launch"
)

// mostMaps is how many maps are kept: more than the planes of a model.
const mostMaps = 4096

// maps are descriptions of caches' planes for the copy engine, which the driver encodes. What a map says follows from where a plane
// lies and how large it is, so it stays valid for memory that is allocated at the same address. It is safe for concurrent use.
type maps struct {
	mu      sync.Mutex
	encoded map[launch.Map]driver.Map // guarded by mu
}

// fill gives a launch its maps.
func (m *maps) fill(ctx *driver.Context, r *driver.Launch, c *launch.Call) error {
	all := c.Maps()
	r.Mapped = uint32(len(all))
	for i := range all {
		encoded, err := m.of(ctx, all[i])
		if err != nil {
			return err
		}
		r.Maps[i] = encoded
	}
	return nil
}

func (m *maps) of(ctx *driver.Context, plane launch.Map) (driver.Map, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if encoded, ok := m.encoded[plane]; ok {
		return encoded, nil
	}
	encoded, err := ctx.EncodeMap(driver.Ptr(plane.At.At), plane.Rows, plane.Width, plane.Type == backend.BF16)
	if err != nil {
		return driver.Map{}, err
	}
	if m.encoded == nil || len(m.encoded) == mostMaps {
		m.encoded = map[launch.Map]driver.Map{}
	}
	m.encoded[plane] = encoded
	return encoded, nil
}
