package kvevents_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/kvevents"
	"github.com/stretchr/testify/require"
)

// count is the tokens from, from+step, … up to to.
func count(from, to, step uint32) (tokens []uint32) {
	for t := from; t <= to; t += step {
		tokens = append(tokens, t)
	}
	return tokens
}

// requireDigests compares digests with hexadecimal digits, of which the middle may be "…".
func requireDigests(t *testing.T, want []string, have []kvevents.Digest) {
	t.Helper()
	require.Len(t, have, len(want))
	for i, w := range want {
		first, last, _ := strings.Cut(w, "…")
		digits := hex.EncodeToString(have[i][:])
		require.True(t, strings.HasPrefix(digits, first) && strings.HasSuffix(digits, last), "digest %d is %s, want %s", i, digits, w)
	}
}

// The values that Mooncake's Conductor publishes for vLLM, and tokens 1 to 32 in blocks of 16 as another program computed them.
func TestVLLMChain(t *testing.T) {
	root := kvevents.VLLMRoot("0")
	requireDigests(t, []string{"4e1195df020de59e0d65a33a4279f1183e7ae4e5d980e309f8b55adff2e61c3e"}, []kvevents.Digest{root})
	for _, c := range []struct {
		name, lora, salt string
		tokens           []uint32
		block            int
		want             []string
	}{
		{"plain", "", "", count(1, 8, 1), 4, []string{"c9d58ba695280d69b243e1e0df813136ca9196b286fb1a021e0b2e028ef071cb", "24125b23e68883b5c2141db2959d48433fe6bde2f26bd914efad121d154ab2d6"}},
		{"adapter", "adapter-A", "", count(1, 8, 1), 4, []string{"1424c0ec536f82188b592f263601d4e48c0255081c5f1e9225163c6d611a5222", "4a2ec941640a8f2470869ec2b3cf6bdd90e2be83b21807b628ac9abe9341eea9"}},
		{"salt", "", "tenant-salt", count(1, 8, 1), 4, []string{"3be45574566e2f3c51c9f254d9627cf113382b627aeaefe8b661d66cfa089359", "22dea68f80ff7f40243dfb906a33db02571905c78a3b42153a56de5ad08c661a"}},
		{"adapter and salt", "adapter-A", "tenant-salt", count(1, 8, 1), 4, []string{"22977da6c71098507264dbf4161d451c2d98494c5c146717f36787e184b36040", "6a3cd7de2626c2d2982eb5bc9d4878a49745c3784bde8a2334ffac47286bb866"}},
		{"blocks of 16", "", "", count(1, 32, 1), 16, []string{"202da172482d928bbc42ab25b0151e2b895f13f41002e27b2ceabcfae6d332ea", "4a0a393805c6d2f0ed831000d41bb65980336c4c04895d5e26470bbec927f5bf"}},
		{"blocks of 16, salt", "", "salt-a", count(1, 32, 1), 16, []string{"311d71020bc0aac18e382b51df4e162c75cbf9f31e5a6868d6bdfee02bc9f258", "f1afdbf0f9d6eb112332c54425a4d498118d8f05337c6453ea343ab9e847b97e"}},
		{"a block that is not whole", "", "", count(1, 33, 1), 16, []string{"202d…d332ea", "4a0a…27f5bf"}},
		{"no block", "", "", count(1, 15, 1), 16, nil},
		{"no block size", "", "", count(1, 15, 1), 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			requireDigests(t, c.want, kvevents.AppendVLLM(nil, root, c.tokens, c.block, c.lora, c.salt))
		})
	}
	have := kvevents.AppendVLLM(nil, root, count(1, 8, 1), 4, "", "")
	require.Equal(t, uint64(0x1e0b2e028ef071cb), have[0].VLLM())
	require.Equal(t, uint64(0xefad121d154ab2d6), have[1].VLLM())
}

// Tokens of every length of CBOR: computed by another program (python3, cbor2's canonical form).
func TestVLLMChainOfLargeTokens(t *testing.T) {
	tokens := []uint32{0, 23, 24, 255, 256, 65535, 65536, 1<<32 - 1}
	requireDigests(t, []string{"3fda5215fcedc3ab85e8c23b34e31098130ea8788b428048cede3ae24d60f662"}, kvevents.AppendVLLM(nil, kvevents.VLLMRoot("seed of 42"), tokens, 8, "", ""))
}

func TestSGLangChain(t *testing.T) {
	numbers := func(tokens []uint32, page int) (n []int64) {
		for _, d := range kvevents.AppendSGLang(nil, tokens, page) {
			n = append(n, d.SGLang())
		}
		return n
	}
	require.Equal(t, []int64{-3488128144981237669}, numbers(count(1, 4, 1), 4))
	require.Equal(t, []int64{-3488128144981237669, -3787494577174227566}, numbers(count(1, 5, 1), 4))
	require.Equal(t, []int64{978178666101069530, -895308556211281782, -8033692805846017938, 835415944263129316}, numbers(count(10, 80, 10), 2))
	require.Equal(t, []int64{8635429971592222890, 1256577331724852459}, numbers(count(1, 32, 1), 16))
	conductor := []uint32{11, 12, 13, 14, 21, 22, 23, 24, 31, 32, 33, 34, 41, 42, 43, 44}
	requireDigests(t, []string{"f67c5ff154ee4961a5f9223699a9f82f6e06cb3c064efbf28119e8a43639ed97", "e1c873d83402d824bf984a0e6d5b96bebbdf10e892a0f03a513ff951bea19a2c",
		"71749b3c9f3e04bfcbb2c0091c6e0b6c24b1748ab8210b4a9bcf87700a59d6af", "921bc52e4f7533bb365da1b69305fc47545a323b22dea240192afb7b076fdfae"}, kvevents.AppendSGLang(nil, conductor, 4))
	require.Empty(t, numbers(nil, 4))
	require.Empty(t, numbers(count(1, 4, 1), 0))
}
