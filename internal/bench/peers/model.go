//go:build peers

package peers

import "encoding/binary"

// groupQueryAttention is an ONNX model of one node, of Microsoft's operator with which its runtime computes attention over a cache.
func groupQueryAttention(onnxType, heads, kvHeads int) []byte {
	const int32Type, opset, irVersion = 6, 17, 10
	rows := func(name, width string) message { return tensor(name, onnxType, "batch", "tokens", width) }
	cache := func(name string) message { return tensor(name, onnxType, "batch", "kv", "keys", "dim") }
	inputs := []message{rows("query", "q"), rows("key", "k"), rows("value", "k"), cache("past_key"), cache("past_value"),
		tensor("last", int32Type, "batch"), tensor("total", int32Type)}
	outputs := []message{rows("output", "q"), cache("present_key"), cache("present_value")}
	var node message
	for _, name := range []string{"query", "key", "value", "past_key", "past_value", "last", "total"} {
		node = node.bytes(1, []byte(name))
	}
	for _, name := range []string{"output", "present_key", "present_value"} {
		node = node.bytes(2, []byte(name))
	}
	node = node.bytes(4, []byte("GroupQueryAttention")).bytes(5, attribute("num_heads", heads)).bytes(5, attribute("kv_num_heads", kvHeads)).bytes(7, []byte("com.microsoft"))
	graph := message(nil).bytes(1, node).bytes(2, []byte("attention"))
	for _, t := range inputs {
		graph = graph.bytes(11, t)
	}
	for _, t := range outputs {
		graph = graph.bytes(12, t)
	}
	return message(nil).number(1, irVersion).bytes(7, graph).bytes(8, message(nil).number(2, opset)).bytes(8, message(nil).bytes(1, []byte("com.microsoft")).number(2, 1))
}

// message is a message of protocol buffers, by the numbers of onnx.proto's fields.
type message []byte

func (m message) number(field, v int) message {
	return binary.AppendUvarint(binary.AppendUvarint(m, uint64(field<<3)), uint64(v))
}

func (m message) bytes(field int, v []byte) message {
	return append(binary.AppendUvarint(binary.AppendUvarint(m, uint64(field<<3|2)), uint64(len(v))), v...)
}

// attribute is an integer of a node.
func attribute(name string, v int) message {
	const integer = 2
	return message(nil).bytes(1, []byte(name)).number(3, v).number(20, integer)
}

// tensor is the name, type and dims of an input or output; dims have names, since they differ from call to call.
func tensor(name string, onnxType int, dims ...string) message {
	var shape message
	for _, dim := range dims {
		shape = shape.bytes(1, message(nil).bytes(2, []byte(dim)))
	}
	t := message(nil).bytes(1, message(nil).number(1, onnxType).bytes(2, shape))
	return message(nil).bytes(1, []byte(name)).bytes(2, t)
}
