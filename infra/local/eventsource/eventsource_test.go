package eventsource

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/google/go-cmp/cmp"
)

// stream is a DynamoDB stream in memory. A record is its sequence number.
type stream struct {
	mu      sync.Mutex
	shards  []types.Shard
	records map[string][]string // by shard
	closed  map[string]bool
	fail    error // of the next GetRecords
	asked   []string
}

func (s *stream) DescribeStream(context.Context, *dynamodbstreams.DescribeStreamInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &dynamodbstreams.DescribeStreamOutput{StreamDescription: &types.StreamDescription{Shards: slices.Clone(s.shards)}}, nil
}

func (s *stream) GetShardIterator(_ context.Context, in *dynamodbstreams.GetShardIteratorInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, string(in.ShardIteratorType)+" "+aws.ToString(in.SequenceNumber))
	// As kumo does, it begins at the oldest record in any case.
	return &dynamodbstreams.GetShardIteratorOutput{ShardIterator: aws.String(*in.ShardId + " 0")}, nil
}

func (s *stream) GetRecords(_ context.Context, in *dynamodbstreams.GetRecordsInput, _ ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail; err != nil {
		s.fail = nil
		return nil, err
	}
	shard, position, _ := strings.Cut(*in.ShardIterator, " ")
	from, _ := strconv.Atoi(position)
	to := min(from+int(*in.Limit), len(s.records[shard]))
	out := &dynamodbstreams.GetRecordsOutput{Records: records(s.records[shard][from:to]...)}
	if to < len(s.records[shard]) || !s.closed[shard] {
		out.NextShardIterator = aws.String(fmt.Sprintf("%s %d", shard, to))
	}
	return out, nil
}

// put appends records to a shard, which it adds if it is new.
func (s *stream) put(shard, parent string, sequences ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.records[shard]; !known {
		added := types.Shard{ShardId: &shard}
		if parent != "" {
			added.ParentShardId = &parent
		}
		s.shards = append(s.shards, added)
	}
	s.records[shard] = append(s.records[shard], sequences...)
}

func records(sequences ...string) []types.Record {
	var list []types.Record
	for _, n := range sequences {
		list = append(list, types.Record{Dynamodb: &types.StreamRecord{SequenceNumber: aws.String(n)}})
	}
	return list
}

// function records what it is invoked with, as "1 2 3 @2s", and answers as the
// test says.
type function struct {
	mu     sync.Mutex
	start  time.Time
	calls  []string
	answer func(batch []string) (string, error)
}

func (f *function) invoke(_ context.Context, payload json.RawMessage) (json.RawMessage, error) {
	var event events.DynamoDBEvent
	if err := json.Unmarshal(payload, &event); err != nil {
		return nil, err
	}
	var batch []string
	for _, r := range event.Records {
		batch = append(batch, r.Change.SequenceNumber)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf("%s @%v", strings.Join(batch, " "), time.Since(f.start)))
	if f.answer == nil {
		return json.RawMessage(`{"batchItemFailures":[]}`), nil
	}
	answer, err := f.answer(batch)
	return json.RawMessage(answer), err
}

func failures(sequences ...string) string {
	r := events.DynamoDBEventResponse{BatchItemFailures: []events.DynamoDBBatchItemFailure{}}
	for _, n := range sequences {
		r.BatchItemFailures = append(r.BatchItemFailures, events.DynamoDBBatchItemFailure{ItemIdentifier: n})
	}
	b, _ := json.Marshal(r)
	return string(b)
}

func TestCheckpoint(t *testing.T) {
	batch := []string{"101", "102", "103"}
	for _, test := range []struct {
		name, answer string
		done         int
		whole        string // part of the error, if the batch failed as a whole
	}{
		{"no failure", `{"batchItemFailures":[]}`, 3, ""},
		{"null list", `{"batchItemFailures":null}`, 3, ""},
		{"empty object", `{}`, 3, ""},
		{"null", `null`, 3, ""},
		{"no answer", ``, 3, ""},
		{"the first", failures("101"), 0, ""},
		{"the last", failures("103"), 2, ""},
		{"the lowest counts, whatever the order", failures("103", "102"), 1, ""},
		{"empty identifier", failures("103", ""), 0, "itemIdentifier is empty"},
		{"null identifier", `{"batchItemFailures":[{"itemIdentifier":null}]}`, 0, "itemIdentifier is empty"},
		{"identifier by another key", `{"batchItemFailures":[{"id":"101"}]}`, 0, "itemIdentifier is empty"},
		{"unknown identifier", failures("102", "104"), 0, `itemIdentifier "104" is not in the batch`},
		{"no JSON", `oops`, 0, "reading the answer"},
		{"no object", `"ok"`, 0, "reading the answer"},
	} {
		t.Run(test.name, func(t *testing.T) {
			done, err := checkpoint(batch, json.RawMessage(test.answer))
			if test.whole == "" {
				if err != nil || done != test.done {
					t.Errorf("got %d, %v, want %d", done, err, test.done)
				}
			} else if err == nil || !strings.Contains(err.Error(), test.whole) {
				t.Errorf("error %v, want one with %q", err, test.whole)
			}
		})
	}
}

func TestDeliver(t *testing.T) {
	boom := errors.New("boom")
	for _, test := range []struct {
		name   string
		batch  []string
		answer func(call int, batch []string) (string, error)
		calls  []string
		skips  []string
	}{
		{
			name: "all taken at once", batch: []string{"1", "2", "3"},
			answer: func(int, []string) (string, error) { return failures(), nil },
			calls:  []string{"1 2 3 @0s"},
		},
		{
			name: "retried from the lowest failure on", batch: []string{"1", "2", "3"},
			answer: func(call int, _ []string) (string, error) {
				if call == 1 {
					return failures("3", "2"), nil
				}
				return failures(), nil
			},
			calls: []string{"1 2 3 @0s", "2 3 @200ms"},
		},
		{
			name: "a record that never passes is given up alone, after five retries", batch: []string{"1", "2", "3"},
			answer: func(_ int, batch []string) (string, error) {
				if slices.Contains(batch, "2") {
					return failures("2"), nil
				}
				return failures(), nil
			},
			calls: []string{"1 2 3 @0s", "2 3 @200ms", "2 3 @600ms", "2 3 @1.4s", "2 3 @3s", "2 3 @6.2s", "3 @6.2s"},
			skips: []string{"2"},
		},
		{
			name: "a batch that fails as a whole is halved, in order", batch: []string{"1", "2", "3", "4"},
			answer: func(call int, batch []string) (string, error) {
				if len(batch) > 1 && slices.Contains(batch, "3") {
					return "", boom
				}
				return failures(), nil
			},
			calls: []string{"1 2 3 4 @0s", "1 2 @200ms", "3 4 @200ms", "3 @400ms", "4 @400ms"},
		},
		{
			name: "an unknown identifier fails the whole batch", batch: []string{"1", "2"},
			answer: func(call int, _ []string) (string, error) {
				if call == 1 {
					return failures("9"), nil
				}
				return failures(), nil
			},
			calls: []string{"1 2 @0s", "1 @200ms", "2 @200ms"},
		},
		{
			name: "a single record that fails as a whole is bounded, too", batch: []string{"1"},
			answer: func(int, []string) (string, error) { return "", boom },
			calls:  []string{"1 @0s", "1 @200ms", "1 @600ms", "1 @1.4s", "1 @3s", "1 @6.2s"},
			skips:  []string{"1"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				f := &function{start: time.Now()}
				f.answer = func(batch []string) (string, error) { return test.answer(len(f.calls), batch) }
				m := &Mapping{Function: f.invoke, Log: slog.New(slog.NewJSONHandler(&log, nil))}
				m.deliver(t.Context(), records(test.batch...))
				if diff := cmp.Diff(test.calls, f.calls); diff != "" {
					t.Errorf("invocations (-want +got):\n%s", diff)
				}
				var skips []string
				for line := range strings.Lines(log.String()) {
					var entry struct{ Level, Sequence string }
					if err := json.Unmarshal([]byte(line), &entry); err != nil {
						t.Fatal(err)
					}
					if entry.Level == "ERROR" {
						skips = append(skips, entry.Sequence)
					}
				}
				if diff := cmp.Diff(test.skips, skips); diff != "" {
					t.Errorf("records given up (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// run starts a mapping in the bubble of the test.
func run(t *testing.T, s *stream, f *function) {
	f.start = time.Now()
	m := &Mapping{Streams: s, StreamARN: "arn", Function: f.invoke, Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

func newStream() *stream {
	return &stream{records: map[string][]string{}, closed: map[string]bool{}}
}

// sleep lets time pass in the bubble, and all that is due then happen.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestRunDeliversInOrderAndInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newStream(), &function{}
		var want []string
		for i := range 2050 {
			want = append(want, strconv.Itoa(i+1))
		}
		s.put("a", "", want[:2048]...)
		run(t, s, f)
		sleep(time.Second + time.Millisecond)
		s.put("a", "", want[2048:]...)
		sleep(time.Second)

		var sizes []int
		var got []string
		for _, call := range f.calls {
			batch, _, _ := strings.Cut(call, " @")
			sizes = append(sizes, len(strings.Fields(batch)))
			got = append(got, strings.Fields(batch)...)
		}
		if diff := cmp.Diff([]int{1000, 1000, 48, 2}, sizes); diff != "" {
			t.Errorf("sizes of batches:\n%s", diff)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("records:\n%s", diff)
		}
		if last := f.calls[3]; last != "2049 2050 @1.25s" {
			t.Errorf("last batch %q, want it at the next poll after it was written", last)
		}
	})
}

func TestRunKeepsShardsApartAndReadsTheParentFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newStream(), &function{}
		f.answer = func(batch []string) (string, error) {
			if batch[0] == "1" && time.Since(f.start) < 400*time.Millisecond {
				return failures("1"), nil
			}
			return failures(), nil
		}
		s.put("parent", "", "1")
		s.put("child", "parent", "11")
		s.put("other", "", "21")
		s.closed["parent"] = true
		run(t, s, f)
		sleep(5 * time.Second)
		slices.Sort(f.calls[:2]) // two shards at the same time
		want := []string{"1 @0s", "21 @0s", "1 @200ms", "1 @600ms", "11 @600ms"}
		if diff := cmp.Diff(want, f.calls); diff != "" {
			t.Errorf("invocations (-want +got):\n%s", diff)
		}
		s.put("grandchild", "child", "101")
		s.mu.Lock()
		s.closed["child"] = true
		s.mu.Unlock()
		sleep(shardsInterval)
		if last := f.calls[len(f.calls)-1]; !strings.HasPrefix(last, "101 ") {
			t.Errorf("last invocation %q, want the record of the new shard", last)
		}
	})
}

func TestRunGoesOnAfterALostIterator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f := newStream(), &function{}
		s.put("a", "", "8", "9")
		run(t, s, f)
		sleep(time.Second)
		s.mu.Lock()
		s.fail = &types.ExpiredIteratorException{}
		s.mu.Unlock()
		s.put("a", "", "10")
		sleep(time.Second)
		if diff := cmp.Diff([]string{"8 9 @0s", "10 @1.25s"}, f.calls); diff != "" {
			t.Errorf("invocations (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"TRIM_HORIZON ", "AFTER_SEQUENCE_NUMBER 9"}, s.asked); diff != "" {
			t.Errorf("iterators asked for (-want +got):\n%s", diff)
		}
	})
}

func TestLambdaRecord(t *testing.T) {
	all := map[string]types.AttributeValue{
		"s": &types.AttributeValueMemberS{Value: "text"}, "n": &types.AttributeValueMemberN{Value: "1.5"},
		"bool": &types.AttributeValueMemberBOOL{Value: true}, "null": &types.AttributeValueMemberNULL{Value: true},
		"b":  &types.AttributeValueMemberB{Value: []byte{0, 255}},
		"ss": &types.AttributeValueMemberSS{Value: []string{"a"}}, "ns": &types.AttributeValueMemberNS{Value: []string{"1"}},
		"bs": &types.AttributeValueMemberBS{Value: [][]byte{{1}}},
		"l":  &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberN{Value: "1"}}},
		"m":  &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"k": &types.AttributeValueMemberS{Value: "v"}}},
	}
	b, err := json.Marshal(lambdaRecord(types.Record{
		AwsRegion: aws.String("us-east-1"), EventID: aws.String("id"), EventName: types.OperationTypeModify,
		EventSource: aws.String("aws:dynamodb"), EventVersion: aws.String("1.1"),
		UserIdentity: &types.Identity{Type: aws.String("Service"), PrincipalId: aws.String("dynamodb.amazonaws.com")},
		Dynamodb: &types.StreamRecord{
			ApproximateCreationDateTime: aws.Time(time.Unix(1764490000, 0)),
			Keys:                        map[string]types.AttributeValue{"group": &types.AttributeValueMemberS{Value: "vpn"}},
			NewImage:                    all, SequenceNumber: aws.String("7"), SizeBytes: aws.Int64(12),
			StreamViewType: types.StreamViewTypeNewAndOldImages,
		},
	}, "arn:stream"))
	if err != nil {
		t.Fatal(err)
	}
	var got any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"awsRegion": "us-east-1", "eventID": "id", "eventName": "MODIFY", "eventSource": "aws:dynamodb",
		"eventVersion": "1.1", "eventSourceARN": "arn:stream",
		"userIdentity": map[string]any{"type": "Service", "principalId": "dynamodb.amazonaws.com"},
		"dynamodb": map[string]any{
			"ApproximateCreationDateTime": 1764490000.0, "SequenceNumber": "7", "SizeBytes": 12.0,
			"StreamViewType": "NEW_AND_OLD_IMAGES",
			"Keys":           map[string]any{"group": map[string]any{"S": "vpn"}},
			"NewImage": map[string]any{
				"s": map[string]any{"S": "text"}, "n": map[string]any{"N": "1.5"}, "bool": map[string]any{"BOOL": true},
				"null": map[string]any{"NULL": true}, "b": map[string]any{"B": "AP8="},
				"ss": map[string]any{"SS": []any{"a"}}, "ns": map[string]any{"NS": []any{"1"}}, "bs": map[string]any{"BS": []any{"AQ=="}},
				"l": map[string]any{"L": []any{map[string]any{"N": "1"}}},
				"m": map[string]any{"M": map[string]any{"k": map[string]any{"S": "v"}}},
			},
		},
	}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("event record (-want +got):\n%s", diff)
	}
}

func TestCompareSequence(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"1", "", 1}, {"9", "10", -1}, {"010", "9", 1}, {"007", "7", 0},
		{"100000000000000000000001", "100000000000000000000000", 1},
	} {
		if got := compareSequence(test.a, test.b); got != test.want {
			t.Errorf("compareSequence(%q, %q) = %d, want %d", test.a, test.b, got, test.want)
		}
	}
}
