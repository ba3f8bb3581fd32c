// The one call of a Hive Metastore that changes something: a queue entry's end.
//
// Names and field numbers are Hive's own (4.0.1). Hive 3.1.3 does not have the call.
include "metastore.thrift"

struct CompactionInfoStruct {
  1: i64 id,
  2: string dbname,
  3: string tablename,
  4: optional string partitionname,
  5: i32 type,                  // 1 minor, 2 major, 3 rebalance, 4 clean-up of aborted transactions
  12: optional i64 highestWriteId
}

service CompactionQueue extends metastore.ReadMetastore {
  void mark_cleaned(1: CompactionInfoStruct cr) throws (1: metastore.MetaException o1)
}
