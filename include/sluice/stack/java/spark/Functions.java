package sluice.sql;

import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/** The functions that a statement may call: those of Spark's own that compute and do nothing else. */
final class Functions {
  static final Set<String> ALLOWED =
      Names.words(
          """
          ! % & * + - / < << <= <=> = == > >= >> >>> ^ and between coalesce div equal_null if ifnull ilike in isnan
          isnotnull isnull like nanvl not nullif nullifzero nvl nvl2 or regexp regexp_like rlike typeof when
          zeroifnull | ~

          any any_value approx_count_distinct approx_percentile approx_top_k array_agg avg bit_and bit_or bit_xor
          bitmap_and_agg bitmap_bit_position bitmap_bucket_number bitmap_construct_agg bitmap_count bitmap_or_agg
          bool_and bool_or collect_list collect_set corr count count_if covar_pop covar_samp every first first_value
          grouping grouping_id histogram_numeric kurtosis last last_value listagg max max_by mean median min min_by
          mode percentile percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy regr_count
          regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness some std stddev stddev_pop stddev_samp
          string_agg sum try_avg try_sum var_pop var_samp variance

          cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number

          aggregate array array_append array_compact array_contains array_distinct array_except array_insert
          array_intersect array_join array_max array_min array_position array_prepend array_remove array_repeat
          array_size array_sort array_union arrays_overlap arrays_zip cardinality concat element_at exists explode
          explode_outer filter flatten forall get inline inline_outer map map_concat map_contains_key map_entries
          map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with named_struct posexplode
          posexplode_outer range reduce reverse sequence shuffle size slice sort_array stack str_to_map struct
          transform transform_keys transform_values try_element_at variant_explode variant_explode_outer zip_with

          abs acos acosh asin asinh atan atan2 atanh bigint bin binary bit_count bit_get boolean bround cast cbrt ceil
          ceiling conv cos cosh cot crc32 csc date decimal degrees double e exp expm1 factorial float floor getbit
          greatest hash hex hypot int least ln log log10 log1p log2 md5 mod negative pi pmod positive pow power
          radians rand randn random rint round sec sha sha1 sha2 shiftleft shiftright shiftrightunsigned sign signum
          sin sinh smallint sqrt string tan tanh timestamp tinyint try_add try_divide try_mod try_multiply
          try_subtract unhex uniform width_bucket xxhash64

          add_months convert_timezone curdate current_date current_timestamp current_timezone date_add date_diff
          date_format date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname
          dayofmonth dayofweek dayofyear extract from_unixtime from_utc_timestamp hour last_day localtimestamp
          make_date make_dt_interval make_interval make_timestamp make_timestamp_ltz make_timestamp_ntz
          make_ym_interval minute month monthname months_between next_day now quarter second session_window
          timestamp_micros timestamp_millis timestamp_seconds to_date to_timestamp to_timestamp_ltz to_timestamp_ntz
          to_unix_timestamp to_utc_timestamp trunc try_make_interval try_make_timestamp try_make_timestamp_ltz
          try_make_timestamp_ntz try_to_date try_to_timestamp unix_date unix_micros unix_millis unix_seconds
          unix_timestamp weekday weekofyear window window_time year

          ascii base64 bit_length btrim char char_length character_length chr collate collation concat_ws contains
          decode elt encode endswith find_in_set format_number format_string initcap instr is_valid_utf8 lcase left
          len length levenshtein locate lower lpad ltrim luhn_check make_valid_utf8 mask octet_length overlay
          parse_url position printf quote randstr regexp_count regexp_extract regexp_extract_all regexp_instr
          regexp_replace regexp_substr repeat replace right rpad rtrim sentences soundex space split split_part
          startswith substr substring substring_index to_binary to_char to_number to_varchar translate trim
          try_parse_url try_to_binary try_to_number try_url_decode try_validate_utf8 ucase unbase64 upper url_decode
          url_encode uuid validate_utf8

          from_csv from_json get_json_object is_variant_null json_array_length json_object_keys json_tuple parse_json
          schema_of_csv schema_of_json schema_of_variant schema_of_variant_agg to_csv to_json to_variant_object
          try_parse_json try_variant_get variant_get

          current_catalog current_database current_schema monotonically_increasing_id
          """);

  /** Those that are refused, by why. A function of neither list is refused, too. */
  static final Map<String, Set<String>> REFUSED =
      new TreeMap<>(
          Map.of(
              "it calls methods of Java",
              Names.words("java_method reflect try_reflect"),
              "it shows what the server's programs wrote",
              Names.words("python_worker_logs"),
              "XML can name files and addresses",
              Names.words(
                  """
                  from_xml schema_of_xml to_xml xpath xpath_boolean xpath_double xpath_float xpath_int xpath_long
                  xpath_number xpath_short xpath_string
                  """),
              "it loads classes or reads files of the server",
              Names.words("from_avro from_protobuf schema_of_avro to_avro to_protobuf"),
              "it tells about the server, not about data",
              Names.words(
                  """
                  collations current_user input_file_block_length input_file_block_start input_file_name session_user
                  spark_partition_id sql_keywords user version
                  """),
              "Spark has no type TIME yet",
              Names.words("current_time make_time time time_diff time_trunc to_time try_to_time"),
              "it only fails",
              Names.words("assert_true raise_error"),
              "a statement with a key is kept in logs",
              Names.words("aes_decrypt aes_encrypt try_aes_decrypt"),
              "it takes bytes that a statement made up for a sketch or a shape",
              Names.words(
                  """
                  approx_top_k_accumulate approx_top_k_combine approx_top_k_estimate count_min_sketch hll_sketch_agg
                  hll_sketch_estimate hll_union hll_union_agg kll_merge_agg_bigint kll_merge_agg_double
                  kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float
                  kll_sketch_get_n_bigint kll_sketch_get_n_double kll_sketch_get_n_float kll_sketch_get_quantile_bigint
                  kll_sketch_get_quantile_double kll_sketch_get_quantile_float kll_sketch_get_rank_bigint
                  kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint kll_sketch_merge_double
                  kll_sketch_merge_float kll_sketch_to_string_bigint kll_sketch_to_string_double
                  kll_sketch_to_string_float st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid
                  theta_difference theta_intersection theta_intersection_agg theta_sketch_agg theta_sketch_estimate
                  theta_union theta_union_agg
                  """)));

  private static final String REMEDY = "docs/analysts.md names the functions that may be called";

  private Functions() {}

  /** Refuse a function that is not allowed; a name with a database or catalog is none of Spark's own. */
  static void check(List<String> parts) {
    String name = String.join(".", parts).toLowerCase(Locale.ROOT);
    if (ALLOWED.contains(name)) {
      return;
    }
    String why =
        REFUSED.entrySet().stream()
            .filter(each -> each.getValue().contains(name))
            .map(each -> ": " + each.getKey())
            .findFirst()
            .orElse("");
    throw new SecurityException("the function " + name + " is not allowed here" + why + "; " + REMEDY);
  }
}
