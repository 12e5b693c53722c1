package cudakernels

import (
	"bytes"
	"errors"
	"io/fs"
	"runtime"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

// Every image is there, and is one that a driver takes: a fat binary where words can be read.
func TestImages(t *testing.T) {
	m, err := Load()
	require.NoError(t, err)
	require.Greater(t, len(m.Families), 20)
	for _, f := range m.Families {
		image, err := m.Image(f.Name)
		require.NoError(t, err)
		require.Len(t, image, f.Size)
		require.Equal(t, []byte{0x50, 0xed, 0x55, 0xba}, image[:4], f.Name)
	}
	for _, k := range m.Kernels {
		_, _, ok := m.Family(k.Family)
		require.True(t, ok, k.Symbol)
	}
	_, err = m.Image("nothing")
	require.ErrorContains(t, err, `no family "nothing"`)
}

// An archive that was damaged on its way into the program is told by name, and is no panic.
func TestDamagedArchives(t *testing.T) {
	m, err := Load()
	require.NoError(t, err)
	for _, name := range []string{"other", "attend_128_128", "attend_64_64"} {
		whole, err := files.ReadFile(name + ".zst")
		require.NoError(t, err)
		flipped := bytes.Clone(whole)
		flipped[len(flipped)/2] ^= 1
		for what, damaged := range map[string][]byte{
			"a byte flipped": flipped, "truncated": whole[:len(whole)/2], "empty": {}, "text": []byte("version https://git-lfs"), "gone": nil,
			"another's": read(t, another(name)),
		} {
			archives := archives{files: fstest.MapFS{}}
			for _, other := range m.Archives {
				archives.files.(fstest.MapFS)[other.Name+".zst"] = &fstest.MapFile{Data: read(t, other.Name)}
			}
			archives.files.(fstest.MapFS)[name+".zst"].Data = damaged
			if damaged == nil {
				delete(archives.files.(fstest.MapFS), name+".zst")
			}
			for _, f := range m.Families {
				if f.Archive != name {
					continue
				}
				_, err := archives.image(m.Manifest, f.Name)
				var damage ErrDamaged
				require.ErrorAs(t, err, &damage, "%s %s", name, what)
				require.ErrorContains(t, err, "make kernels-cuda")
				require.Equal(t, damaged == nil, errors.Is(err, fs.ErrNotExist), what)
			}
		}
	}
}

// An archive that needs another one says which of the two is damaged.
func TestDamagedBase(t *testing.T) {
	m, err := Load()
	require.NoError(t, err)
	tried := 0
	for _, f := range m.Families {
		archive, ok := m.Archive(f.Archive)
		require.True(t, ok)
		if archive.Base == "" {
			continue
		}
		files := fstest.MapFS{}
		for _, b := range m.Archives {
			files[b.Name+".zst"] = &fstest.MapFile{Data: read(t, b.Name)}
		}
		damaged := files[archive.Base+".zst"]
		damaged.Data = damaged.Data[:len(damaged.Data)/2]
		a := archives{files: files}
		_, err := a.image(m.Manifest, f.Name)
		var damage ErrDamaged
		require.ErrorAs(t, err, &damage)
		require.Equal(t, archive.Base+".zst", damage.File)
		tried++
	}
	require.Positive(t, tried)
}

// another is an archive that is not the one of that name.
func another(name string) string {
	if name == "other" {
		return "attend_128_128"
	}
	return "other"
}

func read(t *testing.T, name string) []byte {
	whole, err := files.ReadFile(name + ".zst")
	require.NoError(t, err)
	return whole
}

// Goroutines that want images at once get them, of one copy.
func TestFirstUseIsShared(t *testing.T) {
	m, err := Load()
	require.NoError(t, err)
	a := archives{files: files}
	var wait sync.WaitGroup
	images := make([][]byte, 16)
	for i := range images {
		wait.Go(func() {
			image, err := a.image(m.Manifest, m.Families[i%4*len(m.Families)/4].Name)
			if err == nil {
				images[i] = image
			}
		})
	}
	wait.Wait()
	for i, image := range images {
		require.NotEmpty(t, image)
		require.Same(t, &images[i%4][0], &image[0])
	}
}

// What was unpacked goes once no image is in use.
func TestContentIsDropped(t *testing.T) {
	m, err := Load()
	require.NoError(t, err)
	a := archives{files: files}
	name := m.Families[0].Archive
	image, err := a.image(m.Manifest, m.Families[0].Name)
	require.NoError(t, err)
	runtime.GC()
	require.NotNil(t, a.unpacked[name].Value(), "an image is in use")
	runtime.KeepAlive(image)
	require.Eventually(t, func() bool {
		runtime.GC()
		return a.unpacked[name].Value() == nil
	}, time.Minute, time.Millisecond)
	again, err := a.image(m.Manifest, m.Families[0].Name)
	require.NoError(t, err)
	require.Len(t, again, m.Families[0].Size)
}
