package hostmemory

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// The budget of a container is the least of its control group and of those around it.
func TestContainerMemory(t *testing.T) {
	file := func(name, text string) fstest.MapFS { return fstest.MapFS{name: {Data: []byte(text)}} }
	require.Equal(t, int64(1<<30), containerMemory(file("memory.max", "1073741824\n"), ""))
	require.Equal(t, int64(1<<29), containerMemory(file("memory/memory.limit_in_bytes", "536870912\n"), ""))
	for _, none := range []fstest.MapFS{{}, file("memory.max", "max\n"), file("memory.max", "-1"), file("memory.max", "x"), file("memory.max", "")} {
		require.Zero(t, containerMemory(none, "0::/a\n4:memory:/b\n"))
	}
	nested := fstest.MapFS{
		"a/memory.max":                            {Data: []byte("max\n")},
		"a/b/memory.max":                          {Data: []byte("3000\n")},
		"a/b/c/memory.max":                        {Data: []byte("4000\n")},
		"memory/memory.limit_in_bytes":            {Data: []byte("9223372036854771712\n")},
		"memory/docker/x/memory.limit_in_bytes":   {Data: []byte("5000\n")},
		"memory/others/memory.limit_in_bytes":     {Data: []byte("1\n")},
		"memory/docker/memory.limit_in_bytes":     {Data: []byte("6000\n")},
		"memory/docker/x/y/memory.usage_in_bytes": {Data: []byte("2\n")},
	}
	require.Equal(t, int64(3000), containerMemory(nested, "0::/a/b/c\n"))
	require.Equal(t, int64(5000), containerMemory(nested, "9:name=systemd:/others\n4:cpu,memory:/docker/x/y\n0::/\n"))
	require.Equal(t, int64(9223372036854771712), containerMemory(nested, "4:memory:/not/seen/here\n"))
	require.Equal(t, int64(9223372036854771712), containerMemory(nested, "nonsense\n::\n"))
}
