package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrMalformed is wrapped by every decoding error.
var ErrMalformed = errors.New("wire: malformed record")

// A Record is one message, or a part of one, that can be written and read.
//
// Each record describes its fields once, in order, to a coder. The same
// description writes and reads, so that the two directions cannot disagree.
type Record interface {
	code(c coder)
}

// coder is what a record describes itself to: [Encoder] appends the value
// behind each pointer, [Decoder] fills it.
type coder interface {
	bool(*bool)
	int(*int32)
	long(*int64)
	buffer(*[]byte)
	string(*string)
	strings(*[]string)
	// count writes n, or reads a count and returns it; each element takes at
	// least elem bytes, which bounds what a hostile count can ask for.
	count(n, elem int) int
}

// Append appends the encoding of rs to b.
func Append(b []byte, rs ...Record) []byte {
	e := Encoder{b: b}
	for _, r := range rs {
		r.code(&e)
	}
	return e.b
}

// AppendFrame appends one whole frame to b: the length of rs, then rs.
func AppendFrame(b []byte, rs ...Record) []byte {
	return new(Encoder).AppendFrame(b, rs...)
}

// An Encoder appends records to a buffer. The zero value is ready to be used,
// by one goroutine, any number of times.
type Encoder struct{ b []byte }

// AppendFrame is [AppendFrame] without the cost of a new Encoder.
func (e *Encoder) AppendFrame(b []byte, rs ...Record) []byte {
	at := len(b)
	e.b = append(b, 0, 0, 0, 0)
	for _, r := range rs {
		r.code(e)
	}
	b, e.b = e.b, nil
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

func (e *Encoder) bool(v *bool) {
	if *v {
		e.b = append(e.b, 1)
		return
	}
	e.b = append(e.b, 0)
}

func (e *Encoder) int(v *int32)  { e.b = binary.BigEndian.AppendUint32(e.b, uint32(*v)) }
func (e *Encoder) long(v *int64) { e.b = binary.BigEndian.AppendUint64(e.b, uint64(*v)) }

func (e *Encoder) buffer(v *[]byte) {
	if *v == nil {
		e.b = append(e.b, 0xff, 0xff, 0xff, 0xff)
		return
	}
	e.count(len(*v), 1)
	e.b = append(e.b, *v...)
}

func (e *Encoder) string(v *string) {
	e.count(len(*v), 1)
	e.b = append(e.b, *v...)
}

func (e *Encoder) strings(v *[]string) {
	e.count(len(*v), 4)
	for i := range *v {
		e.string(&(*v)[i])
	}
}

func (e *Encoder) count(n, _ int) int {
	e.b = binary.BigEndian.AppendUint32(e.b, uint32(int32(n)))
	return n
}

// A Decoder reads records from one frame's body. The first error sticks and
// every read after it yields zero values.
type Decoder struct {
	b     []byte
	err   error
	nulls bool
}

// NewDecoder returns a Decoder over b, which it does not keep references to
// beyond its own life: all that it yields is copied.
func NewDecoder(b []byte) *Decoder { return &Decoder{b: b} }

// Reset makes d read b, as if it were new.
func (d *Decoder) Reset(b []byte) { *d = Decoder{b: b} }

// Decode reads rs in order and returns the first error.
func (d *Decoder) Decode(rs ...Record) error {
	for _, r := range rs {
		r.code(d)
	}
	return d.err
}

// Len returns the number of bytes not yet read.
func (d *Decoder) Len() int { return len(d.b) }

// Nulls reports whether a string, or a vector of strings, was null. Such a
// value is read as empty; ZooKeeper mostly stumbles over it.
func (d *Decoder) Nulls() bool { return d.nulls }

// Err returns the first error.
func (d *Decoder) Err() error { return d.err }

func (d *Decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
	}
	d.b = nil
}

func (d *Decoder) take(n int) []byte {
	if d.err != nil {
		return nil
	}
	if n < 0 || n > len(d.b) {
		d.fail("%d bytes wanted, %d left", n, len(d.b))
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *Decoder) bool(v *bool) {
	*v = false
	if b := d.take(1); b != nil {
		*v = b[0] != 0
	}
}

func (d *Decoder) int(v *int32) {
	*v = 0
	if b := d.take(4); b != nil {
		*v = int32(binary.BigEndian.Uint32(b))
	}
}

func (d *Decoder) long(v *int64) {
	*v = 0
	if b := d.take(8); b != nil {
		*v = int64(binary.BigEndian.Uint64(b))
	}
}

// length reads a length that may be -1 for null.
func (d *Decoder) length() int {
	var n int32
	d.int(&n)
	if n < -1 || int(n) > len(d.b) {
		d.fail("length %d, %d bytes left", n, len(d.b))
		return 0
	}
	return int(n)
}

func (d *Decoder) buffer(v *[]byte) {
	*v = nil
	n := d.length()
	if d.err != nil || n < 0 {
		return
	}
	*v = append(make([]byte, 0, n), d.take(n)...)
}

func (d *Decoder) string(v *string) {
	*v = ""
	switch n := d.length(); {
	case n < 0:
		d.nulls = true
	case n > 0:
		*v = string(d.take(n))
	}
}

func (d *Decoder) strings(v *[]string) {
	null := len(d.b) >= 4 && binary.BigEndian.Uint32(d.b) == 1<<32-1
	d.nulls = d.nulls || null
	n := d.count(0, 4)
	*v = make([]string, n)
	for i := range *v {
		d.string(&(*v)[i])
	}
}

func (d *Decoder) count(_, elem int) int {
	var n int32
	d.int(&n)
	if n < 0 { // null, or by ZooKeeper's reading empty
		return 0
	}
	if int(n) > len(d.b)/elem {
		d.fail("%d elements, %d bytes left", n, len(d.b))
		return 0
	}
	return int(n)
}
