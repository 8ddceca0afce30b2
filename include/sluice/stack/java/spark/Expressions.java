package sluice.sql;

import java.util.Set;

/** The expressions that a plan may have, by the full names of their classes: as parsed, and after analysis. */
final class Expressions {
  static final Set<String> ALLOWED =
      Names.classes(
          """
          org.apache.spark.sql.catalyst.analysis:
            MultiAlias UnresolvedAlias UnresolvedAttribute UnresolvedExtractValue UnresolvedFunction
            UnresolvedGenerator UnresolvedOrdinal UnresolvedPartitionSpec UnresolvedStar UnresolvedStarExceptOrReplace
          org.apache.spark.sql.catalyst.expressions:
            Abs Acos Acosh Add AddMonths Alias And ArrayAggregate ArrayAppend ArrayCompact ArrayContains ArrayDistinct
            ArrayExcept ArrayExists ArrayFilter ArrayForAll ArrayInsert ArrayIntersect ArrayJoin ArrayMax ArrayMin
            ArrayPosition ArrayPrepend ArrayRemove ArrayRepeat ArraySize ArraySort ArrayTransform ArrayUnion
            ArraysOverlap ArraysZip Ascii Asin Asinh Atan Atan2 Atanh AttributeReference BRound Base64 Between Bin
            BinaryPad BinaryPredicate BitLength BitmapAndAgg BitmapBitPosition BitmapBucketNumber BitmapConstructAgg
            BitmapCount BitmapOrAgg BitwiseAnd BitwiseCount BitwiseGet BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast
            Cbrt Ceil CheckOverflowInTableInsert Chr Coalesce Collate Collation CommonExpressionDef
            CommonExpressionRef Concat ConcatWs Contains Conv ConvertTimezone Cos Cosh Cot Crc32 CreateArray CreateMap
            CreateNamedStruct Csc CsvToStructs Cube CumeDist CurrentCatalog CurrentDatabase CurrentDate CurrentRow$
            CurrentTimeZone CurrentTimestamp DateAdd DateAddInterval DateAddYMInterval DateDiff DateFormatClass
            DateFromUnixDate DateSub DatetimeSub DayName DayOfMonth DayOfWeek DayOfYear Decode DenseRank Divide
            DivideDTInterval DivideInterval DivideYMInterval ElementAt Elt Encode EndsWith EqualNull EqualNullSafe
            EqualTo EulerNumber Exists Exp Explode Expm1 Extract ExtractANSIIntervalDays ExtractANSIIntervalHours
            ExtractANSIIntervalMinutes ExtractANSIIntervalMonths ExtractANSIIntervalSeconds ExtractANSIIntervalYears
            ExtractIntervalDays ExtractIntervalHours ExtractIntervalMinutes ExtractIntervalMonths
            ExtractIntervalSeconds ExtractIntervalYears Factorial FindInSet Flatten Floor FormatNumber FormatString
            FromUTCTimestamp FromUnixTime Get GetArrayItem GetArrayStructFields GetJsonObject GetMapValue
            GetStructField GreaterThan GreaterThanOrEqual Greatest GroupingSets Hex Hour Hypot ILike If In InSubquery
            InitCap Inline IntegralDivide IsNaN IsNotNull IsNotUnknown$$anon$2 IsNull IsUnknown$$anon$1 IsValidUTF8
            JsonObjectKeys JsonToStructs JsonTuple KnownNullable Lag LambdaFunction LastDay LateralSubquery Lead Least
            Left Length LengthOfJsonArray LessThan LessThanOrEqual Levenshtein Like LikeAll LikeAny ListQuery Literal
            LocalTimestamp Log Log10 Log1p Log2 Logarithm Lower Luhncheck MakeDTInterval MakeDate MakeInterval
            MakeTimestamp MakeTimestampFromDateTime MakeTimestampNTZ MakeValidUTF8 MakeYMInterval MapConcat
            MapContainsKey MapEntries MapFilter MapFromArrays MapFromEntries MapKeys MapValues MapZipWith Mask Md5
            MicrosToTimestamp MillisToTimestamp Minute MonotonicallyIncreasingID Month MonthName MonthsBetween
            Multiply MultiplyDTInterval MultiplyInterval MultiplyYMInterval Murmur3Hash NTile NaNvl
            NamedArgumentExpression NamedLambdaVariable NextDay Not NotLikeAll NotLikeAny Now NthValue NullIf
            NullIfZero Nvl Nvl2 OctetLength Or OuterReference Overlay ParseToDate ParseToTimestamp ParseUrl
            PercentRank Pi PipeExpression Pmod PosExplode Pow PreciseTimestampConversion Quarter Quote RLike Rand
            RandStr Randn Rank RegExpCount RegExpExtract RegExpExtractAll RegExpInStr RegExpReplace RegExpSubStr
            Remainder ResolvedCollation Reverse Right Rint Rollup Round RoundCeil RoundFloor RowNumber ScalarSubquery
            SchemaOfCsv SchemaOfJson Sec Second SecondWithFraction SecondsToTimestamp SemiStructuredExtract Sentences
            Sequence Sha1 Sha2 ShiftLeft ShiftRight ShiftRightUnsigned Shuffle Signum Sin Sinh Size Slice SortArray
            SortOrder SoundEx SpecifiedWindowFrame SplitPart Sqrt Stack StartsWith StringDecode StringInstr StringLPad
            StringLocate StringRPad StringRepeat StringReplace StringSpace StringSplit StringToMap StringTranslate
            StringTrim StringTrimBoth StringTrimLeft StringTrimRight StructsToCsv StructsToJson Substring
            SubstringIndex Subtract SubtractDates SubtractTimestamps Tan Tanh TimestampAdd TimestampAddInterval
            TimestampAddYMInterval TimestampDiff ToBinary ToCharacter ToDegrees ToNumber ToRadians ToUTCTimestamp
            ToUnixTimestamp TransformKeys TransformValues TruncDate TruncTimestamp TryAdd TryDivide TryElementAt
            TryEval TryMakeInterval TryMakeTimestamp TryMakeTimestampFromDateTime TryMod TryMultiply TryParseUrl
            TrySubtract TryToBinary TryToNumber TryUrlDecode TryValidateUTF8 TypeOf TypedNullLiteral UnBase64
            UnaryMinus UnaryPositive UnboundedFollowing$ UnboundedPreceding$ Unhex Uniform UnixDate UnixMicros
            UnixMillis UnixSeconds UnixTimestamp UnresolvedCollation UnresolvedNamedLambdaVariable
            UnresolvedWindowExpression UnspecifiedFrame$ Upper UrlDecode UrlEncode Uuid ValidateUTF8 WeekDay
            WeekOfYear WidthBucket WindowExpression WindowSpecDefinition With XxHash64 Year YearOfWeek ZeroIfNull
            ZipWith
          org.apache.spark.sql.catalyst.expressions.aggregate:
            AggregateExpression AnyValue ApproxTopK ApproximatePercentile Average BitAndAgg BitOrAgg BitXorAgg BoolAnd
            BoolOr CollectList CollectSet Corr Count CountIf CovPopulation CovSample First HistogramNumeric
            HyperLogLogPlusPlus Kurtosis Last ListAgg Max MaxBy Median Min MinBy Mode Percentile PercentileCont
            PercentileDisc PivotFirst RegrAvgX RegrAvgY RegrCount RegrIntercept RegrR2 RegrSXX RegrSXY RegrSYY
            RegrSlope Skewness StddevPop StddevSamp Sum VariancePop VarianceSamp
          org.apache.spark.sql.catalyst.expressions.variant:
            IsVariantNull ParseJson SchemaOfVariant SchemaOfVariantAgg ToVariantObject VariantExplode VariantGet
          org.apache.spark.sql.catalyst.plans.logical:
            ColumnDefinition OptionList QualifiedColType UnresolvedTableSpec
          """);

  private Expressions() {}
}
