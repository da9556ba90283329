package recipes

import (
	"database/sql/driver"
	"encoding"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"time"
)

// An ID is a number that no other generator of the same root has made or will
// make. It is never negative. What it is made of, only its [Layout] knows.
//
// IDs have the order of their numbers. As text, and so in JSON, they are
// strings of 13 characters in the same order; as a number in JSON they would
// lose bits in every JavaScript. In a database they are 64-bit integers.
type ID int64

var (
	_ encoding.TextMarshaler   = ID(0)
	_ encoding.TextUnmarshaler = (*ID)(nil)
	_ driver.Valuer            = ID(0)
	_ slog.LogValuer           = ID(0)
)

// Time returns the beginning of the unit of time that the ID carries. It may
// lie ahead of the moment of the call that returned the ID, see [WithMaxLead].
func (id ID) Time(l Layout) time.Time { return l.at(int64(id) >> (l.WorkerBits + l.SequenceBits)) }

// Worker returns the number of the worker that made the ID.
func (id ID) Worker(l Layout) int { return int(int64(id) >> l.SequenceBits & (1<<l.WorkerBits - 1)) }

// Sequence returns the ID's number within its worker and its unit of time.
func (id ID) Sequence(l Layout) int64 { return int64(id) & (1<<l.SequenceBits - 1) }

// crockford is Douglas Crockford's base 32: no I, L, O, U, and in the order
// of the characters' codes. https://www.crockford.com/base32.html
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// idLength is how many characters the 63 bits of an ID take.
const idLength = 13

// crockfordValue has the value of each character, 0xff for those that have
// none. Lower case counts as upper, O as 0, I and L as 1.
var crockfordValue = func() (value [256]byte) {
	for i := range value {
		value[i] = 0xff
	}
	for i := range crockford {
		c := crockford[i]
		value[c] = byte(i)
		if c >= 'A' {
			value[c-'A'+'a'] = byte(i)
		}
	}
	for like, c := range map[string]byte{"Oo": '0', "IiLl": '1'} {
		for i := range like {
			value[like[i]] = value[c]
		}
	}
	return value
}()

// String returns the ID in Crockford's base 32, always 13 characters, so that
// text sorts as the numbers do.
func (id ID) String() string {
	var text [idLength]byte
	id.write(&text)
	return string(text[:])
}

func (id ID) write(text *[idLength]byte) {
	rest := uint64(id)
	for i := idLength - 1; i >= 0; i-- {
		text[i] = crockford[rest&31]
		rest >>= 5
	}
}

// ParseID reads what [ID.String] wrote. As Crockford asks, case does not
// matter, and O is read as 0, I and L as 1. It does not know a number in decimal
// for one: with 13 digits it may be read as another ID.
func ParseID(text string) (ID, error) { return parseID(text) }

func parseID[T string | []byte](text T) (ID, error) {
	if len(text) != idLength {
		return 0, fmt.Errorf("recipes: %q is no ID: want %d characters", text, idLength)
	}
	var number uint64
	for i := range len(text) {
		value := crockfordValue[text[i]]
		if value == 0xff {
			return 0, fmt.Errorf("recipes: %q is no ID: character %d is not of Crockford's base 32", text, i+1)
		}
		if number > math.MaxInt64>>5 {
			return 0, fmt.Errorf("recipes: %q is no ID: it has more than 63 bits", text)
		}
		number = number<<5 | uint64(value)
	}
	return ID(number), nil
}

// MarshalText returns what String does. By it an ID is a string in JSON.
func (id ID) MarshalText() ([]byte, error) {
	if id < 0 {
		return nil, negative(int64(id))
	}
	var text [idLength]byte
	id.write(&text)
	return text[:], nil
}

// UnmarshalText reads what MarshalText wrote. A number in JSON is refused.
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := parseID(text)
	if err == nil {
		*id = parsed
	}
	return err
}

// Value returns the ID as a database keeps it, an integer of 64 bits.
func (id ID) Value() (driver.Value, error) {
	if id < 0 {
		return nil, negative(int64(id))
	}
	return int64(id), nil
}

// Scan reads what Value wrote: an integer, or its decimal digits, as which
// some drivers deliver one. The text form is refused, for it may look like
// digits too; a column of text is scanned as a string and goes through
// [ParseID]. A column that may be NULL is scanned into an sql.Null[ID].
func (id *ID) Scan(src any) error {
	var number int64
	var err error
	switch src := src.(type) {
	case int64:
		number = src
	case string:
		number, err = strconv.ParseInt(src, 10, 64)
	case []byte:
		number, err = strconv.ParseInt(string(src), 10, 64)
	default:
		return fmt.Errorf("recipes: a %T cannot be scanned into an ID", src)
	}
	if err != nil {
		return fmt.Errorf("recipes: scanning an ID: %w", err)
	}
	if number < 0 {
		return negative(number)
	}
	*id = ID(number)
	return nil
}

// LogValue returns the text form.
func (id ID) LogValue() slog.Value { return slog.StringValue(id.String()) }

func negative(number int64) error {
	return fmt.Errorf("recipes: %d is no ID: it is negative", number)
}
